"""The journal of a search reads back what it has written, and refuses everything else."""

import math
from pathlib import Path

import pytest

from vadam.tuning.journal import Journal, JournalError

DEEP = "[" * 100_000


TRIALS = [
    '{"trial": 0, "cell": "a", "point": null, "folds": [1.0]}',
    '{"trial": 0, "cell": "a", "point": {"lr": "0.1"}, "folds": [1.0]}',
    '{"trial": 0, "cell": "a", "point": {"lr": 0.1}, "folds": [true]}',
    '{"trial": 0, "cell": "a", "point": {"lr": 0.1}, "folds": [[1.0]]}',
    '{"trial": 0, "cell": "a", "point": {"lr": 0.1}, "folds": []}',
]


@pytest.mark.parametrize("damage", ["hello", DEEP, "3", "[]", '{"trial": 0}', '{"trial": 0, "cell": "b"}', *TRIALS])
def test_a_damaged_journal_is_named(damage: str, tmp_path: Path) -> None:
    search = {"cells": ["a"]}
    Journal(tmp_path / "journal", search)
    with (tmp_path / "journal").open("a") as file:
        file.write(damage + "\n")
    with pytest.raises(JournalError, match="journal"):
        Journal(tmp_path / "journal", search)


@pytest.mark.parametrize(
    "content", [b"my thesis, on one line", b"line\nanother", b'{"a": 1}\n{"b"', b"\x80\x04\x95", b'{"a": 1}\n']
)
def test_a_file_that_is_no_journal_is_refused_and_stays_as_it_is(tmp_path, content):
    """A file named by mistake keeps its last line, which an incomplete line of a journal would lose."""
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(JournalError, match=r"notes.txt is not the journal of a search"):
        Journal(path, {"cells": ["a"]})
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b"", b"{", b'{"search"', b'{"search": {"cells": ["a"'])
def test_an_incomplete_first_line_is_begun_again(tmp_path, content):
    path = tmp_path / "journal.jsonl"
    path.write_bytes(content)
    Journal(path, {"cells": ["a"]})
    assert Journal(path, {"cells": ["a"]}).trials == {"a": []}


@pytest.mark.parametrize(
    ("folds", "value"), [([1.0, 3.0], 2.0), ([1.0, math.nan], -math.inf), ([1.0, math.inf], -math.inf)]
)
def test_a_trial_is_read_back_as_it_was_added(folds: list[float], value: float, tmp_path: Path) -> None:
    """A fold that failed makes the trial fail; finite values come back unchanged."""
    search, point = {"cells": ["a"]}, {"lr": 0.1}
    written = Journal(tmp_path / "journal", search)
    written.add([("a", point, folds)])
    (trial,) = Journal(tmp_path / "journal", search).trials["a"]
    assert (trial.point, trial.value) == (point, value)
    assert trial.folds == [x if math.isfinite(x) else -math.inf for x in folds]
    assert written.trials["a"][0].value == value
