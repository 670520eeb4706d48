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
