"""Published image sets in the IDX format: MNIST, Fashion-MNIST, notMNIST.

    train, test = vadam_paper.data.image_set("fashion-mnist")     # two `Images`

A set is looked for in ``root=``, ``VADAM_DATA`` and the cache, and otherwise downloaded. Its checksums are of the
uncompressed files, because copies differ in their compression.
"""

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vadam_paper.data import folders
from vadam_paper.data.download import Progress, fetch
from vadam_paper.data.errors import UNREADABLE, ChecksumMismatch, DataNotAvailable, DownloadFailed, UnknownDataset
from vadam_paper.data.loading import Root

DIMENSIONS = {"images-idx3": 3, "labels-idx1": 1}


@dataclass(frozen=True)
class Images:
    """Images ``X`` float32 ``[n, channels, height, width]`` with values in [0, 1]; ``y`` int64 class numbers."""

    X: NDArray[np.float32]
    y: NDArray[np.int64]
    class_names: tuple[str, ...]


class ImageSet(NamedTuple):
    """A set: its public address, licence, class names, and the checksum of each uncompressed file."""

    url: str
    licence: str
    class_names: tuple[str, ...]
    sha256: dict[str, str]

    def paths(self, name: str) -> list[str]:
        return [f"images/{name}/{file}-ubyte.gz" for file in self.sha256]


DIGITS = tuple("0123456789")
CLOTHES = ("T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Boot")
IMAGE_SETS = {
    "mnist": ImageSet(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "CC BY-SA 3.0",
        DIGITS,
        {
            "train-images-idx3": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "train-labels-idx1": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "t10k-images-idx3": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "t10k-labels-idx1": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        },
    ),
    "fashion-mnist": ImageSet(
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/b2617bb6d3ffa2e429640350f613e3291e10b141/data/fashion/",
        "MIT",
        CLOTHES,
        {
            "train-images-idx3": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "train-labels-idx1": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "t10k-images-idx3": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "t10k-labels-idx1": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        },
    ),
    "notmnist": ImageSet(
        "https://raw.githubusercontent.com/davidflanagan/notMNIST-to-MNIST/17823f4d4a3acd8317c07866702d2eb2ac79c7a0/",
        "MIT",
        tuple("ABCDEFGHIJ"),
        {
            "t10k-images-idx3": "8e7f38ae95cc8f48e0986175ffc9137e5007ebcf3d8fdf6656c904eb9dab198b",
            "t10k-labels-idx1": "5f8e6012f2ce730700d8d05fca098bc47f71d25b890e4bec7ac5ebfd614a4001",
        },
    ),
}


def image_set(
    name: str, root: Root = None, *, download: bool = True, progress: Progress | None = None
) -> tuple[Images, ...]:
    """Return the parts of a set: training and test images, or the test images alone for notMNIST.

    Raises `DataNotAvailable` if the set cannot be found and `ChecksumMismatch` if it differs from the published one.
    """
    if name not in IMAGE_SETS:
        raise UnknownDataset(f"no image set is named {name!r}: known are {', '.join(IMAGE_SETS)}")
    published = IMAGE_SETS[name]
    found = [_read(path, published) for path in _files(name, root, download, progress)]
    return tuple(
        Images(pixels[:, None].astype(np.float32) / np.float32(255), labels.astype(np.int64), published.class_names)
        for pixels, labels in zip(found[::2], found[1::2], strict=True)
    )


def _files(name: str, root: Root, download: bool, progress: Progress | None) -> list[Path]:
    published = IMAGE_SETS[name]
    searched = folders.search_order(root)
    for folder in searched:
        paths = [folder.path / path for path in published.paths(name)]
        if all(path.is_file() for path in paths):
            return paths
    looked_in = ", ".join(str(folder.path) for folder in searched)
    wanted = " and ".join(published.paths(name))
    if not download:
        raise DataNotAvailable(f"the image set {name!r} is not on this machine: looked in {looked_in} for {wanted}")
    targets = [folders.cache() / path for path in published.paths(name)]
    for target, sha256 in zip(targets, published.sha256.values(), strict=True):
        try:
            fetch(published.url + target.name, target, sha256=sha256, checksum=_uncompressed_sha256, progress=progress)
        except DownloadFailed as error:
            raise DownloadFailed(
                f"the image set {name!r} could not be downloaded: {error}. Or set VADAM_DATA to a folder that has {wanted}."
            ) from error
    return targets


def _uncompressed_sha256(path: Path) -> str:
    try:
        return hashlib.sha256(_unzip(path)).hexdigest()
    except UNREADABLE:
        return "none: not a gzip file"


def _unzip(path: Path) -> bytes:
    with gzip.open(path) as file:
        return file.read()


def _read(path: Path, published: ImageSet) -> NDArray[Any]:
    part = path.name.removesuffix("-ubyte.gz")
    try:
        content = _unzip(path)
    except UNREADABLE as error:
        raise ChecksumMismatch(f"{path} cannot be read ({error}): delete or replace it") from error
    if (found := hashlib.sha256(content).hexdigest()) != published.sha256[part]:
        raise ChecksumMismatch(
            f"{path} does not hold the published images (sha256 of the uncompressed file {found}, published "
            f"{published.sha256[part]}): delete or replace it"
        )
    return idx(content, DIMENSIONS[part.split("-", 1)[1]])


def idx(content: bytes, dimensions: int) -> NDArray[Any]:
    """Return the array of bytes in an IDX file: two zeros, type 8, the number of dimensions, their sizes, the values."""
    if content[:4] != bytes((0, 0, 8, dimensions)):
        raise ValueError(f"not an IDX file of bytes with {dimensions} dimensions: it starts with {content[:4]!r}")
    shape = np.frombuffer(content, ">i4", dimensions, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)
