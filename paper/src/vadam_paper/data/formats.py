"""Readers, one function per file format: from paths to ``(X, y)`` as in the files; a text is returned as bytes."""

import bz2
import math
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Arrays = tuple[Floats, Floats]


def raw_bytes(path: Path) -> bytes:
    return path.read_bytes()


def uci_npz(path: Path) -> Arrays:
    """Read an archive with ``X`` and ``y``."""
    return _array(path, "X"), _array(path, "y")


def columns(path: Path, *, d: int) -> Arrays:
    """Read numbers between blanks: d columns of features, then the target; further columns are ignored."""
    values = np.loadtxt(path, dtype=np.float64, ndmin=2)
    return values[:, :d].copy(), values[:, d].copy()


def csv(path: Path) -> Arrays:
    """Read comma-separated numbers, target last; lines that start with # are comments."""
    values = np.loadtxt(path, dtype=np.float64, delimiter=",", ndmin=2)
    return values[:, :-1].copy(), values[:, -1].copy()


def libsvm(*paths: Path, d: int) -> Arrays:
    """Read and join LIBSVM text files ``label index:value ...``, indices from 1, zeros left out; plain or bz2."""
    parts = [_libsvm_text(_decompressed(path), d) for path in paths]
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def _decompressed(path: Path) -> str:
    content = path.read_bytes()
    return (bz2.decompress(content) if path.suffix == ".bz2" else content).decode("ascii")


def _libsvm_text(text: str, d: int) -> Arrays:
    lines = [line for line in text.splitlines() if line.strip()]
    pairs = np.array([line.count(":") for line in lines])
    numbers = np.fromiter(map(float, " ".join(lines).replace(":", " ").split()), dtype=np.float64)
    label_at = np.concatenate([[0], np.cumsum(1 + 2 * pairs)[:-1]])
    y = numbers[label_at]
    index, value = np.delete(numbers, label_at).reshape(-1, 2).T
    X = np.zeros((len(lines), d))
    X[np.repeat(np.arange(len(lines)), pairs), index.astype(np.int64) - 1] = value
    return X, y


def digit_pair_npz(path: Path) -> Arrays:
    """Read an archive with images ``X`` and the ``digit`` that each shows."""
    return _array(path, "X"), _array(path, "digit")


def _array(path: Path, name: str) -> Floats:
    """Read an array of an archive; raise ValueError if it announces more numbers than the archive holds."""
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} is not an archive of arrays: write it with numpy.savez")
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as member:
        if np.lib.format.read_magic(member) != (1, 0):
            raise ValueError(f"{path}: {name!r} has an unknown format: write the archive with numpy.savez")
        shape, _, dtype = np.lib.format.read_array_header_1_0(member)
        held = archive.getinfo(f"{name}.npy").file_size
        if math.prod(shape) * dtype.itemsize > held:
            raise ValueError(f"{path}: {name!r} announces the shape {shape}, but has {held} bytes: the file is damaged")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return arrays[name].astype(np.float64)


def digit_pair_mat(path: Path, *, digits: tuple[int, int]) -> Arrays:
    """Read two digits from GPML's ``usps_resampled.mat``, in file order: its train part, then its test part."""
    try:
        from scipy.io import loadmat
    except ImportError as error:
        raise ImportError(f"reading {path} needs scipy: pip install scipy") from error
    mat = loadmat(path)
    images = np.hstack([mat["train_patterns"], mat["test_patterns"]]).T
    digit = np.hstack([mat["train_labels"], mat["test_labels"]]).argmax(axis=0)  # +1 for the digit shown, -1 elsewhere
    of_pair = np.isin(digit, digits)
    return images[of_pair], digit[of_pair].astype(np.float64)
