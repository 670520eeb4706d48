"""Read CIFAR-10 in its binary version: five files for training and one for testing, recognised by their names."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vadam_paper.data import Images

RECORD = 1 + 3 * 32 * 32
"""Bytes per image: the class number and 3 × 32 × 32 pixels."""
TEST = "test_batch.bin"


def is_folder(folder: Path) -> bool:
    return (folder / "data_batch_1.bin").is_file() or (folder / "data_batch_1").is_file()


def read(folder: Path) -> tuple[Images, int]:
    """Return all images, those of the test file last, and the number of test images."""
    batches = sorted(folder.glob("data_batch_*.bin"))
    if not batches:
        raise ValueError(f"{folder} is CIFAR-10 for Python: download its binary version, cifar-10-binary.tar.gz")
    if not (folder / TEST).is_file():
        raise ValueError(f"{folder} has no {TEST}, the test images: extract cifar-10-binary.tar.gz again")
    test = _records(folder / TEST)
    records = np.concatenate([*map(_records, batches), test])
    X = records[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / np.float32(255)
    return Images(X, records[:, 0].astype(np.int64), tuple(map(str, range(10)))), len(test)


def _records(path: Path) -> NDArray[np.uint8]:
    content = np.fromfile(path, dtype=np.uint8)
    if not content.size or content.size % RECORD:
        raise ValueError(f"{path} has {content.size:,} bytes, not a multiple of {RECORD:,}: download it again")
    records = content.reshape(-1, RECORD)
    if records[:, 0].max() > 9:
        raise ValueError(f"{path} has the class {records[:, 0].max()}, but CIFAR-10 has 0 to 9: download it again")
    return records
