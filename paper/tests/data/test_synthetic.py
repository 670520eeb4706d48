import numpy as np
import pytest

from vadam_paper import data
from vadam_paper.data import synthetic


@pytest.mark.parametrize("name", ["murphy-like", "cubic-gap"])
def test_a_seed_is_a_set(name):
    row = data.registry.find(name)
    table, again, other = data.load(name), data.load(name, seed=0), data.load(name, seed=1)
    assert table.X.shape == (row.n, row.d)
    np.testing.assert_array_equal(table.X, again.X)
    np.testing.assert_array_equal(table.y, again.y)
    assert not np.array_equal(table.X, other.X)


def test_murphy_like_has_murphys_clouds():
    table = data.load("murphy-like", n_per_class=20_000)
    for label, centre, std in ((1, (1, 5), 1.0), (0, (-5, 1), 2.2)):
        x = table.X[table.y == label]
        assert len(x) == 20_000
        np.testing.assert_allclose(x.mean(axis=0), centre, atol=5 * std / 20_000**0.5)  # five standard errors
        np.testing.assert_allclose(x.std(axis=0), std, atol=5 * std / 40_000**0.5)


def test_cubic_gap_has_a_gap_and_the_stated_noise():
    table = data.load("cubic-gap", n=20_000, noise_std=2.0)
    x = table.X[:, 0]
    assert np.abs(x).min() > 1.5
    assert np.abs(x).max() < 4
    assert (np.diff(x) >= 0).all()
    noise = table.y - synthetic.cubic(x)
    assert abs(noise.mean()) < 5 * 2 / 20_000**0.5  # five standard errors
    assert abs(noise.std() - 2) < 5 * 2 / 40_000**0.5


def test_only_generated_sets_take_options():
    with pytest.raises(TypeError, match="'yacht' is a fixed set and takes no options, got seed"):
        data.load("yacht", seed=1)
    with pytest.raises(TypeError, match="samples"):
        data.load("cubic-gap", samples=3)
