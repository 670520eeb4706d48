"""Image sets in the IDX format: read, checked, and found in a data folder."""

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest

from vadam_paper import data
from vadam_paper.data import image_sets


def idx_bytes(array: np.ndarray) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + np.asarray(array.shape, ">i4").tobytes() + array.astype(np.uint8).tobytes()


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a set of four training and two test images in a data folder."""
    rng = np.random.default_rng(0)
    contents = {
        "train-images-idx3": idx_bytes(rng.integers(256, size=(4, 3, 5))),
        "train-labels-idx1": idx_bytes(np.array([0, 1, 1, 0])),
        "t10k-images-idx3": idx_bytes(rng.integers(256, size=(2, 3, 5))),
        "t10k-labels-idx1": idx_bytes(np.array([1, 0])),
    }
    checksums = {file: hashlib.sha256(content).hexdigest() for file, content in contents.items()}
    monkeypatch.setitem(image_sets.IMAGE_SETS, "small", image_sets.ImageSet("", "none", ("a", "b"), checksums))
    folder = tmp_path / "data" / "images" / "small"
    folder.mkdir(parents=True)
    for file, content in contents.items():
        (folder / f"{file}-ubyte.gz").write_bytes(gzip.compress(content, compresslevel=1))
    return tmp_path / "data"


def test_reads_pixels_and_classes(small: Path) -> None:
    train, test = data.image_set("small", small)
    assert train.X.shape == (4, 1, 3, 5)
    assert test.y.tolist() == [1, 0]
    raw = gzip.decompress((small / "images/small/t10k-images-idx3-ubyte.gz").read_bytes())[16:]
    np.testing.assert_allclose(test.X.ravel() * 255, list(raw), atol=1e-4)


def test_other_contents_are_refused(small: Path) -> None:
    file = small / "images/small/t10k-labels-idx1-ubyte.gz"
    file.write_bytes(gzip.compress(idx_bytes(np.array([0, 0]))))
    with pytest.raises(data.ChecksumMismatch, match="does not hold the published images"):
        data.image_set("small", small)
    file.write_bytes(b"not gzip")
    with pytest.raises(data.ChecksumMismatch, match="cannot be read"):
        data.image_set("small", small)


def test_absent_and_unknown_sets_are_named(tmp_path: Path) -> None:
    with pytest.raises(data.DataNotAvailable, match=r"'mnist' is not on this machine.*images/mnist/train-images"):
        data.image_set("mnist", tmp_path, download=False)
    with pytest.raises(data.UnknownDataset, match="known are mnist, fashion-mnist"):
        data.image_set("cats")


def test_wrong_dimensions_are_refused() -> None:
    with pytest.raises(ValueError, match="not an IDX file of bytes with 3 dimensions"):
        image_sets.idx(idx_bytes(np.zeros((2, 2))), 3)


@pytest.mark.parametrize(
    ("name", "sizes"), [("mnist", [60_000, 10_000]), ("fashion-mnist", [60_000, 10_000]), ("notmnist", [10_000])]
)
def test_published_sets(name: str, sizes: list[int], published) -> None:
    root = published(f"images/{name}/t10k-images-idx3-ubyte.gz").parents[2]
    parts = data.image_set(name, root, download=False)
    assert [len(part.X) for part in parts] == sizes
    assert parts[-1].X.shape[1:] == (1, 28, 28)
    assert set(parts[-1].y.tolist()) == set(range(10))
    if name != "mnist":  # MNIST's digits are not equally frequent
        assert np.bincount(parts[-1].y).tolist() == [1000] * 10
