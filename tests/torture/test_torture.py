"""The torture itself can fail: cases that raise, crash, hang or count nothing are failures, and each break names a line that exists."""

import json
import os
import re
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    known = [*sys.path]
    yield
    sys.path[:] = known


def passes(case):
    from torture.case import Outcome

    found = Outcome()
    found.add("things", 2)
    found.figure("largest", case.number)
    return found


def fails(case):
    from torture.case import Failed

    raise Failed("the promise is broken")


def crashes(case):
    os.kill(os.getpid(), 9)


def hangs(case):
    time.sleep(60)


def counts_nothing(case):
    from torture.case import Outcome

    return Outcome()


def run(tmp_path: Path, act, target: int = 4, **options):
    from torture.case import Kind, Part
    from torture.record import Record
    from torture.runner import Runner

    kind = Kind("numbers", "", "things", target, target, {"part": Part(act, **options)})
    record = Record(tmp_path / "record.json", seed=0)
    Runner(record, kind, jobs=1, stop=True).run(kind.targets(target))
    return record


def test_cases_are_counted_until_the_target_is_reached(tmp_path: Path) -> None:
    record = run(tmp_path, passes)
    saved = json.loads((tmp_path / "record.json").read_text())["kinds"]["numbers"]["parts"]["part"]
    assert record.failures() == []
    assert saved["found"]["counts"] == {"things": 4}
    assert saved["found"]["worst"] == {"largest": 1}


@pytest.mark.parametrize(
    ("act", "options", "said"),
    [
        (fails, {}, "the promise is broken"),
        (crashes, {}, r"crashed (exit code -9)"),
        (hangs, {"seconds": 1.0}, "hung: no end after 1 s"),
        (counts_nothing, {}, "the case counted no things"),
    ],
    ids=["fails", "crashes", "hangs", "counts nothing"],
)
def test_what_goes_wrong_is_a_failure(tmp_path: Path, act, options, said: str) -> None:
    failure, *_ = run(tmp_path, act, **options).failures()
    assert said in failure["what"]
    assert failure["command"] == "python -m torture numbers --part part --seed 0 --case 0"


def test_a_record_goes_on_and_other_kinds_stay(tmp_path: Path) -> None:
    from torture.record import Record

    run(tmp_path, passes)
    again = Record(tmp_path / "record.json", seed=0)
    again.resume()
    assert again.part("numbers", "part").found.counts == {"things": 4}
    other = Record(tmp_path / "record.json", seed=1)
    other.resume()
    assert other.part("numbers", "part").found.counts == {}  # another seed starts over


def kinds():
    sys.path.insert(0, str(ROOT))
    from torture.__main__ import KINDS

    return KINDS


@pytest.mark.parametrize("name", kinds())
def test_every_kind_names_lines_to_break(name: str) -> None:
    """A line that is no longer there, or twice, could not be broken on purpose."""
    kind = import_module(f"torture.{name}").KIND
    assert kind.name == name
    assert kind.breaks
    for one in kind.breaks:
        assert (ROOT / one.path).read_text().count(one.line) == 1, one
        assert one.part in kind.parts
        compile((ROOT / one.path).read_text().replace(one.line, one.broken), one.path, "exec")


def test_every_kind_is_on_the_page() -> None:
    from torture.page import TITLES

    assert set(TITLES) == set(kinds())


def test_the_page_is_that_of_the_record() -> None:
    from torture.page import PAGE, RECORD, page

    assert PAGE.read_text() == page(json.loads(RECORD.read_text())), "run: python -m torture.page"


def test_each_test_that_keeps_a_finding_mended_exists() -> None:
    from torture.page import FOUND

    named = set(re.findall(r"`(test_\w+)`", FOUND.read_text()))
    sources = [path.read_text() for folder in ("tests", "paper/tests") for path in (ROOT / folder).rglob("test_*.py")]
    assert len(named) > 100
    assert named <= {name for source in sources for name in re.findall(r"def (test_\w+)", source)}


def test_records_are_joined() -> None:
    """The last run of a kind counts; lines that were broken on purpose stay with it."""
    from torture.page import joined

    def section(parts, broken):
        return {"kinds": {"soak": {"commit": "a", "parts": parts, "broken": broken}}}

    first, second, proof = section({"x": 1}, []), section({"x": 2}, []), section({}, ["line"])
    assert joined([first, proof, second]) == section({"x": 2}, ["line"])
