"""All data sets that vadam knows, by name."""

import difflib

from vadam_paper.data.errors import UnknownDataset
from vadam_paper.data.sets.classification import CLASSIFICATION
from vadam_paper.data.sets.regression import REGRESSION
from vadam_paper.data.sets.text import TEXT
from vadam_paper.data.spec import Dataset

DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in (*REGRESSION, *CLASSIFICATION, *TEXT)}


def _key(name: str) -> str:
    return name.lower().replace("_", "-")


_BY_KEY = {_key(name): dataset for dataset in DATASETS.values() for name in (dataset.name, *dataset.aliases)}


def find(name: str) -> Dataset:
    """Return the set with this name or published file name (``bostonHousing``); case and ``_`` for ``-`` do not matter."""
    if _key(name) in _BY_KEY:
        return _BY_KEY[_key(name)]
    close = difflib.get_close_matches(_key(name), _BY_KEY, n=1)
    hint = f"did you mean {_BY_KEY[close[0]].name!r}? " if close else ""
    raise UnknownDataset(f"no data set is named {name!r}: {hint}known are {', '.join(DATASETS)}")
