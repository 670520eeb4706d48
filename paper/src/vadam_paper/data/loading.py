"""From a name to a checked data set: given folder, ``VADAM_DATA``, cache, installed package, download."""

import importlib.metadata
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, overload

from vadam_paper.data import digest, folders, registry
from vadam_paper.data.download import Progress, fetch
from vadam_paper.data.errors import UNREADABLE, ChecksumMismatch, DataNotAvailable, DownloadFailed
from vadam_paper.data.formats import Arrays
from vadam_paper.data.spec import Dataset, OnDisk
from vadam_paper.data.table import Split, Table, Text

Root = str | os.PathLike[str] | None


@dataclass(frozen=True)
class Place:
    """Where a set was found: ``origin`` is "the given folder", "VADAM_DATA", "cache", "package" or "generated"."""

    origin: str
    where: str
    read: Callable[..., Arrays | bytes]


@overload
def load(  # type: ignore[overload-overlap]
    name: Literal["war-and-peace", "war_and_peace"],
    root: Root = None,
    *,
    download: bool = True,
    progress: Progress | None = None,
) -> Text: ...


@overload
def load(
    name: str, root: Root = None, *, download: bool = True, progress: Progress | None = None, **options: Any
) -> Table: ...


def load(
    name: str, root: Root = None, *, download: bool = True, progress: Progress | None = None, **options: Any
) -> Table | Text:
    """The set as a `Table` (or `Text`), its values checked against the published ones.

    ``options`` are those of a generated set: ``load("cubic-gap", n=40, seed=1)``. ``download=False`` fetches nothing.
    Raises `DataNotAvailable` where the set cannot be had and `ChecksumMismatch` where it is not the published one.
    """
    dataset = registry.find(name)
    if options and dataset.generate is None:
        raise TypeError(f"{dataset.name!r} is a fixed set and takes no options, got {', '.join(sorted(options))}")
    place = get(name, root, progress=progress) if download else locate(name, root)
    if place is None:
        raise DataNotAvailable(_nowhere(dataset, root))
    return _read(dataset, place, options)


def splits(name: str) -> tuple[Split, ...]:
    """The published train/test splits of a set, from their rule: no file is read."""
    dataset = registry.find(name)
    if dataset.split_rule is None:
        raise LookupError(f"{dataset.name!r} has no published train/test split: choose your own")
    return dataset.split_rule(dataset.n)


def locate(name: str, root: Root = None) -> Place | None:
    """Where the set is on this machine; None where it would have to be downloaded."""
    dataset = registry.find(name)
    if dataset.generate:
        return Place("generated", "drawn by vadam", dataset.generate)
    for folder in folders.search_order(root) if dataset.on_disk else ():
        for form in dataset.on_disk:
            if all((folder.path / file.path).is_file() for file in form.files):
                return _in_folder(form, folder.path, folder.role)
    carried = dataset.in_package
    if carried and carried.installed:
        return Place("package", f"{carried.package} {importlib.metadata.version(carried.package)}", carried.read)
    return None


def available(name: str, root: Root = None) -> bool:
    """Whether `load` works without a network."""
    return locate(name, root) is not None


def get(name: str, root: Root = None, *, progress: Progress | None = None) -> Place:
    """Make sure that the set is on this machine, downloading it into the cache if need be.

    ``progress(done, total)`` gets the bytes of the file under way; ``total`` is None where the server does not say.
    """
    place = locate(name, root)
    if place:
        return place
    dataset = registry.find(name)
    form = dataset.download
    if form is None:
        raise DataNotAvailable(_nowhere(dataset, root))
    for file in form.files:
        target = folders.cache() / file.path
        try:
            fetch(str(file.url), target, sha256=file.sha256, checksum=file.checksum, progress=progress)
        except DownloadFailed as error:
            raise DownloadFailed(
                f"the data set {dataset.name!r} could not be downloaded: {error}. Or put the file at {target}, "
                f"or set VADAM_DATA to a folder that has {_wanted(dataset)}."
            ) from error
    return _in_folder(form, folders.cache(), "cache")


def check(name: str, root: Root = None) -> Place:
    """Compare the values of the set with the published ones. Downloads nothing; returns where the set was found."""
    dataset = registry.find(name)
    place = locate(name, root)
    if place is None:
        raise DataNotAvailable(_nowhere(dataset, root))
    _read(dataset, place, {})
    return place


def _in_folder(form: OnDisk, folder: Path, origin: str) -> Place:
    paths = [folder / file.path for file in form.files]
    return Place(origin, ", ".join(map(str, paths)), lambda: form.read(*paths))


def _read(dataset: Dataset, place: Place, options: dict[str, Any]) -> Table | Text:
    if dataset.generate:
        return dataset.present(dataset.generate(**options))
    try:
        content = dataset.present(place.read())
    except UNREADABLE as error:
        raise ChecksumMismatch(f"{place.where} cannot be read as {dataset.name!r} ({error}): {_REPLACE}") from error
    found = digest.of_values(content)
    if found != dataset.sha256:
        raise ChecksumMismatch(
            f"{place.where} does not hold the published values of {dataset.name!r} "
            f"(sha256 of the values {found}, published {dataset.sha256}): {_REPLACE}"
        )
    return content


_REPLACE = "delete or replace it; a set of your own is best loaded with numpy or pandas"


def _wanted(dataset: Dataset) -> str:
    return " or ".join(" and ".join(file.path for file in form.files) for form in dataset.on_disk)


def _nowhere(dataset: Dataset, root: Root) -> str:
    if not dataset.on_disk:
        return f"the data set {dataset.name!r} is not available: it is {dataset.how_to_get}"
    looked_in = ", ".join(f"{folder.path} ({folder.role})" for folder in folders.search_order(root))
    return (
        f"the data set {dataset.name!r} is not on this machine: looked in {looked_in} for {_wanted(dataset)}. "
        f"To get it: {dataset.how_to_get}."
    )
