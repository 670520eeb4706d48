"""Data sets of the paper, checked against their published values.

    table = vadam_paper.data.load("boston")                 # Table(X, y, feature_names, target_name)
    for train, test in vadam_paper.data.splits("boston"):   # the 20 published splits, generated from their rule
        ...

A set is looked for in ``root=``, the folder ``VADAM_DATA``, the cache (``VADAM_CACHE`` or ``~/.cache/vadam``), an
installed package that carries it, and last at its public address. `registry` lists the sets.
"""

from vadam_paper.data import registry
from vadam_paper.data.errors import ChecksumMismatch, DataNotAvailable, DownloadFailed, UnknownDataset
from vadam_paper.data.image_sets import Images, image_set
from vadam_paper.data.intents import Queries, intents
from vadam_paper.data.loading import Place, available, check, get, load, locate, splits
from vadam_paper.data.spec import Dataset
from vadam_paper.data.table import Split, Table, Text

__all__ = [
    "ChecksumMismatch",
    "DataNotAvailable",
    "Dataset",
    "DownloadFailed",
    "Images",
    "Place",
    "Queries",
    "Split",
    "Table",
    "Text",
    "UnknownDataset",
    "available",
    "check",
    "get",
    "image_set",
    "intents",
    "load",
    "locate",
    "registry",
    "splits",
]
