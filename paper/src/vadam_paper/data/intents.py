"""CLINC150 (Larson et al. 2019): queries of 150 intents, and queries out of scope.

parts = vadam_paper.data.intents()
parts["train"].texts, parts["train"].labels          # out-of-scope parts have no labels
"""

import hashlib
import json
from typing import NamedTuple

from vadam_paper.data import folders
from vadam_paper.data.download import Progress, fetch
from vadam_paper.data.errors import ChecksumMismatch, DataNotAvailable
from vadam_paper.data.loading import Root

FILE = "text/clinc150_full.json"
SHA256 = "36923c3705a59e08fe9c3883d8bc2dd966ef93e22cb78ac41171782a698d56e0"
URL = "https://raw.githubusercontent.com/clinc/oos-eval/828f8093932c8fe6ca7936c3d2e52903b1c523de/data/data_full.json"
LICENCE = "CC BY 3.0"
PARTS = ("train", "val", "test", "oos_train", "oos_val", "oos_test")


class Queries(NamedTuple):
    """Texts with their class numbers; the classes are the intents in alphabetical order."""

    texts: tuple[str, ...]
    labels: tuple[int, ...]


def intents(root: Root = None, *, download: bool = True, progress: Progress | None = None) -> dict[str, Queries]:
    """Return the six parts: train, val, test, and those out of scope with ``oos_`` in front."""
    content = _content(root, download, progress)
    if (found := hashlib.sha256(content).hexdigest()) != SHA256:
        raise ChecksumMismatch(f"{FILE} is not the published one (sha256 {found}, published {SHA256}): replace it")
    parts = json.loads(content)
    number = {name: k for k, name in enumerate(sorted({intent for _, intent in parts["train"]}))}
    return {
        part: Queries(
            tuple(text for text, _ in parts[part]),
            () if part.startswith("oos") else tuple(number[intent] for _, intent in parts[part]),
        )
        for part in PARTS
    }


def _content(root: Root, download: bool, progress: Progress | None) -> bytes:
    searched = folders.search_order(root)
    for folder in searched:
        if (folder.path / FILE).is_file():
            return (folder.path / FILE).read_bytes()
    if not download:
        looked_in = ", ".join(str(folder.path) for folder in searched)
        raise DataNotAvailable(f"CLINC150 is not on this machine: looked in {looked_in} for {FILE}, from {URL}")
    target = folders.cache() / FILE
    fetch(
        URL,
        target,
        sha256=SHA256,
        checksum=lambda path: hashlib.sha256(path.read_bytes()).hexdigest(),
        progress=progress,
    )
    return target.read_bytes()
