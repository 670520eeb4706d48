"""The journal of a search refuses what it has not written."""

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
    """What looked like an incomplete last line was cut off, also of files that somebody named by mistake."""
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
