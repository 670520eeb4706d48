"""MNIST and sets in its format: four gzipped IDX files in ``images/NAME`` of a data folder."""

import gzip
import os
from pathlib import Path

import numpy as np

from vadam_paper.data import folders
from vadam_paper.data.errors import DataNotAvailable
from vadam_paper.data.images import Images

NAMES = ("mnist", "fashion-mnist", "notmnist")
PARTS = {"train": "train", "test": "t10k"}


def available(name: str, root: str | os.PathLike[str] | None = None) -> bool:
    """Return True if the training images of a set are on this machine."""
    return _folder(name, root) is not None


def load(name: str, part: str = "train", *, rows: slice = slice(None), root: str | os.PathLike[str] | None = None) -> Images:
    """Return some images of a set, [n, 1, 28, 28] in [0, 1]; ``part`` is "train" or "test"."""
    folder = _folder(name, root)
    if folder is None:
        looked_in = ", ".join(str(place.path) for place in folders.search_order(root))
        raise DataNotAvailable(
            f"the images {name!r} are not on this machine: looked in {looked_in} for images/{name}/train-images-idx3-ubyte.gz and "
            f"the three files that belong to it. Put them there, or set VADAM_DATA"
        )
    X = _idx(folder / f"{PARTS[part]}-images-idx3-ubyte.gz")[rows]
    y = _idx(folder / f"{PARTS[part]}-labels-idx1-ubyte.gz")[rows]
    return Images((X[:, None] / np.float32(255)).astype(np.float32), y.astype(np.int64), tuple(map(str, range(10))))


def _folder(name: str, root: str | os.PathLike[str] | None) -> Path | None:
    if name not in NAMES:
        raise ValueError(f"name must be one of {', '.join(NAMES)}, got {name!r}")
    places = [place.path / "images" / name for place in folders.search_order(root)]
    return next((path for path in places if (path / "train-images-idx3-ubyte.gz").is_file()), None)


def _idx(path: Path) -> np.ndarray:
    content = gzip.decompress(path.read_bytes())
    if content[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is not an IDX file of bytes")
    axes = content[3]
    shape = np.frombuffer(content, ">u4", axes, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(tuple(map(int, shape)))
