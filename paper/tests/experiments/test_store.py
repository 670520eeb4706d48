"""The result store: rows survive a torn write, other configurations, and a second process."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from vadam_paper.experiments import ExperimentError
from vadam_paper.experiments.jsonify import dumps, jsonify
from vadam_paper.experiments.store import Store, read_rows
from vadam_paper.experiments.timing import Duration

TOOK = Duration(1.0, 0.5)


def test_rows_come_back(tmp_path: Path) -> None:
    with Store(tmp_path / "run", "abc") as store:
        store.append("a", {"x": torch.tensor([1.0, 2.0])}, TOOK)
        store.append("b", {"x": float("nan")}, TOOK, commit="0123")
        rows = store.rows()
    assert rows["a"]["result"] == {"x": [1.0, 2.0]}
    assert rows["b"]["result"] == {"x": None}
    assert rows["a"]["seconds"] == 1.0
    assert (rows["a"]["commit"], rows["b"]["commit"]) == (None, "0123")


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_last_line_is_dropped_and_then_cut_off(tmp_path: Path, cut: int) -> None:
    with Store(tmp_path, "abc") as store:
        store.append("a", {"x": 1}, TOOK)
        store.append("b", {"x": 2, "long": "y" * 60}, TOOK)
    path = tmp_path / "rows.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    assert set(read_rows(path, "abc")) == {"a"}
    with Store(tmp_path, "abc") as store:
        store.append("c", {"x": 3}, TOOK)
        assert set(store.rows()) == {"a", "c"}


def test_rows_of_another_configuration_are_kept_but_not_read(tmp_path: Path) -> None:
    for fingerprint in ("one", "two"):
        with Store(tmp_path, fingerprint) as store:
            store.append("a", {"from": fingerprint}, TOOK)
    assert read_rows(tmp_path / "rows.jsonl", "one")["a"]["result"] == {"from": "one"}
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 2


def test_a_broken_line_in_the_middle_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("not json\n")
    with pytest.raises(ExperimentError, match=r"Line 1 of .*--no-resume"):
        read_rows(tmp_path / "rows.jsonl", "abc")


def test_a_second_process_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    holder = "import sys, pathlib, json\nfrom vadam_paper.experiments.store import Store\n"
    holder += "folder = pathlib.Path(sys.argv[1])\nimport os\n"
    holder += "with Store(folder, 'abc'):\n"
    holder += "    (folder / 'manifest.json').write_text(json.dumps({'running': os.getpid()}))\n"
    holder += "    print('held', flush=True)\n    sys.stdin.read()\n"
    process = subprocess.Popen(
        [sys.executable, "-c", holder, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    with pytest.raises(ExperimentError, match=rf"process {process.pid}\)"), Store(tmp_path, "abc"):
        pass
    process.kill()
    process.communicate()
    with Store(tmp_path, "abc") as store:  # a killed process leaves no lock behind
        assert store.rows() == {}


def test_jsonify() -> None:
    value = {
        "a": np.float64(1 / 3),
        "b": torch.tensor([1e-20, float("inf")], dtype=torch.float64),
        "c": (1, True, None, "ü"),
    }
    assert json.loads(dumps(jsonify(value))) == {"a": 0.3333333, "b": [1e-20, None], "c": [1, True, None, "ü"]}
