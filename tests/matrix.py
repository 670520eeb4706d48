"""Record which integration was tested with which optimizer: a pytest plugin, and the command that writes the docs table.

    python tests/matrix.py           runs the tests and writes the table of docs/integrations.md from those that passed
    python tests/matrix.py --show    prints the table that it would have if all passed

A test says what it covers by ``@covers("Lightning", "gradient clipping")``. The optimizer is that of its ``spec``, or each of
``optimizers``; ``refuses=True`` says that the test shows an error which explains why it cannot be.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from specs import SPECS

covers = pytest.mark.integration
ROOT = Path(__file__).parents[1]
FOLDERS = ["tests/integrations", "tests/distributed"]
PAGE = ROOT / "docs" / "integrations.md"
BEGIN, END = "<!-- written by tests/matrix.py -->\n", "<!-- end -->\n"
OPTIMIZERS = [spec.name for spec in sorted(SPECS, key=lambda spec: "attach" not in spec.ways)]


class Matrix:
    """The cells that the collected tests cover, and their outcomes."""

    def __init__(self, *, run: bool) -> None:
        self._run = run
        self._tests: dict[tuple[str, str], dict[str, list[str]]] = {}  # of a row and an optimizer
        self._signs: dict[str, dict[tuple[str, str, str], str]] = {}
        self._passed: dict[str, bool] = {}

    def collect(self, nodeid: str, row: tuple[str, str], optimizers: Iterable[str], sign: str) -> None:
        for optimizer in optimizers:
            self._tests.setdefault(row, {}).setdefault(optimizer, []).append(nodeid)
            self._signs.setdefault(nodeid, {})[(*row, optimizer)] = sign

    def ran(self, nodeid: str, passed: bool) -> None:
        self._passed[nodeid] = passed and self._passed.get(nodeid, True)

    def cell(self, row: tuple[str, str], optimizer: str) -> str:
        tests = self._tests[row].get(optimizer, [])
        if not tests:
            return ""
        if self._run and not all(self._passed.get(test, False) for test in tests):
            return "failed"
        return self._signs[tests[0]][(*row, optimizer)]

    def table(self) -> str:
        names = [name.replace("-", " ") for name in OPTIMIZERS]  # so that they break
        lines = [f"| | {' | '.join(names)} |", f"|---|{':-:|' * len(OPTIMIZERS)}"]
        for where in dict.fromkeys(where for where, _ in self._tests):
            lines.append(f"| **{where}** |{' |' * len(OPTIMIZERS)}")
            for row in self._tests:
                if row[0] == where:
                    lines.append(f"| {row[1]} | {' | '.join(self.cell(row, name) for name in OPTIMIZERS)} |")
        return "\n".join(lines) + "\n"


class Plugin:
    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        for item in items:
            for mark in reversed(list(item.iter_markers("integration"))):
                optimizers = mark.kwargs.get("optimizers") or [item.callspec.params["spec"]]
                sign = "✗" if mark.kwargs.get("refuses") else "✓"
                self.matrix.collect(item.nodeid, (mark.args[0], mark.args[1]), map(str, optimizers), sign)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.matrix.ran(report.nodeid, report.passed)


def written(page: str, table: str) -> str:
    """Return the page with this table in its place."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + table + END + rest.split(END)[1]


def main(show: bool) -> int:
    matrix = Matrix(run=not show)
    options = ["--collect-only", "-q", "-q"] if show else ["-q", "-p", "no:cacheprovider"]
    options.append(f"--ignore={ROOT / 'tests/integrations/test_asks.py'}")  # which compares the table
    code = pytest.main([f"--rootdir={ROOT}", *options, *(str(ROOT / folder) for folder in FOLDERS)], [Plugin(matrix)])
    if show:
        print(BEGIN + matrix.table() + END)
    else:
        PAGE.write_text(written(PAGE.read_text(), matrix.table()))
    return int(code)


if __name__ == "__main__":
    sys.exit(main("--show" in sys.argv[1:]))
