"""Read your own images: a NumPy archive, or a folder with one subfolder of PNG files per class."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from vadam_paper.data.errors import UNREADABLE

CHANNELS = (1, 3, 4)
"""Channel counts that identify channels-last images."""


@dataclass(frozen=True)
class Images:
    """Images ``X`` float32 ``[n, channels, height, width]``, 8-bit values scaled to [0, 1]; ``y`` int64 class numbers."""

    X: NDArray[np.float32]
    y: NDArray[np.int64]
    class_names: tuple[str, ...]


def images(path: str | os.PathLike[str]) -> Images:
    """Read an npz with ``X`` ``[n, h, w]`` or ``[n, c, h, w]`` and ``y``, or a folder ``<class>/*.png`` of one size."""
    path = Path(path).expanduser()
    if path.is_dir():
        return _from_folder(path)
    if path.suffix == ".npz" and path.is_file():
        return _from_npz(path)
    raise FileNotFoundError(f"{str(path)!r} is neither an .npz file nor a folder with one subfolder per class")


def _from_npz(path: Path) -> Images:
    with path.open("rb") as file:
        try:
            archive = NpzFile(file, allow_pickle=False)
        except UNREADABLE as error:
            raise ValueError(f"{path} is not an npz archive: write it with numpy.savez(path, X=X, y=y)") from error
        missing = {"X", "y"} - set(archive.files)
        if missing:
            raise ValueError(f"{path} has no {' and no '.join(sorted(missing))}, only {', '.join(archive.files)}")
        X, y = _numbers(archive, "X", path), _numbers(archive, "y", path)
    if X.ndim == 3:
        X = X[:, None]
    if X.ndim != 4 or y.shape != (len(X),):
        raise ValueError(f"{path}: X must be [n, h, w] or [n, c, h, w] and y [n], got X {X.shape} and y {y.shape}")
    if X.shape[1] not in CHANNELS and X.shape[3] in CHANNELS:
        raise ValueError(
            f"{path}: X {X.shape} looks like [n, h, w, c], with the channels last: save numpy.moveaxis(X, -1, 1) instead"
        )
    if not_finite := int((~np.isfinite(X)).sum()):
        raise ValueError(f"{path}: {not_finite} values of X are not finite: fill or leave out those images")
    if (y != y.astype(np.int64)).any():
        raise ValueError(f"{path}: y must hold whole class numbers, got {y[y != y.astype(np.int64)][0]}")
    if y.size and y.min() < 0:
        raise ValueError(f"{path}: y must hold class numbers from 0, got {y.min()}")
    y = y.astype(np.int64)
    return Images(_unit_range(X), y, tuple(map(str, range(y.max(initial=-1) + 1))))


def _numbers(archive: Any, name: str, path: Path) -> NDArray[Any]:
    try:
        found: NDArray[Any] = archive[name]
    except UNREADABLE as error:
        if str(error).startswith("Object arrays"):  # numpy's own message recommends pickles, which run code
            raise ValueError(f"{path}: {name} holds Python objects: save an array of numbers") from None
        raise ValueError(f"{path}: {name} cannot be read ({error}): write the file again") from error
    if found.dtype.kind not in "buif":
        raise ValueError(f"{path}: {name} must hold real numbers, got {found.dtype}")
    return found


def _from_folder(path: Path) -> Images:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(f"reading the images in {path} needs pillow: pip install pillow") from error
    class_names = tuple(sorted(child.name for child in path.iterdir() if child.is_dir()))
    files = [(file, number) for number, name in enumerate(class_names) for file in sorted((path / name).glob("*.png"))]
    if not files:
        raise FileNotFoundError(f"{path} has no <class>/*.png")
    pixels = []
    for file, _ in files:
        with Image.open(file) as image:
            if image.mode.startswith(("I", "F")):
                raise ValueError(f"{file} has more than 8 bits per channel (mode {image.mode}): save it with 8")
            grey = image.mode in ("1", "L", "LA")
            pixels.append(np.atleast_3d(np.asarray(image.convert("L" if grey else "RGB"))).transpose(2, 0, 1))
    shapes = {array.shape for array in pixels}
    if len(shapes) > 1:
        raise ValueError(
            f"the images in {path} differ in channels, height or width: {sorted(shapes)}; bring them to one size"
        )
    return Images(_unit_range(np.stack(pixels)), np.array([number for _, number in files], dtype=np.int64), class_names)


def _unit_range(X: NDArray[np.generic]) -> NDArray[np.float32]:
    """Scale 8-bit values to [0, 1]; floating-point values stay unchanged."""
    scale = np.float32(255) if X.dtype == np.uint8 else np.float32(1)
    return X.astype(np.float32) / scale
