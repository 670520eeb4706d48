"""After kill -9 at any moment and a resume, the final table is that of an uninterrupted run."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vadam_paper.data import available
from vadam_paper.experiments import find
from vadam_paper.experiments.results import read_results
from vadam_paper.experiments.runner import run, run_folder

EXPERIMENT = find("logreg-breast-cancer")
CONFIG = EXPERIMENT.config("smoke", "authors")
PROGRAM = Path(__file__).parent / "killed.py"

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL"),
    pytest.mark.skipif(not available("breast-cancer"), reason="the breast-cancer data are not on this machine"),
]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed")
    run(EXPERIMENT, CONFIG, out)
    return out


def table(out: Path) -> object:
    return EXPERIMENT.part("table").table(read_results(out, EXPERIMENT))


def rows(out: Path) -> dict[str, object]:
    lines = (run_folder(out, CONFIG) / "rows.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    assert len({row["cell"] for row in found}) == len(found)
    return {row["cell"]: row["result"] for row in found}


def test_twenty_kills_at_random_moments(tmp_path: Path, undisturbed: Path) -> None:
    subprocess.run([sys.executable, str(PROGRAM), str(tmp_path), "20", "0"], check=True, timeout=200)
    assert rows(tmp_path) == rows(undisturbed)
    assert table(tmp_path) == table(undisturbed)
    manifest = json.loads((run_folder(tmp_path, CONFIG) / "manifest.json").read_text())
    assert manifest["cells_done"] == manifest["cells"]
    assert not list(run_folder(tmp_path, CONFIG).glob("**/*.tmp"))
    assert not (run_folder(tmp_path, CONFIG) / "checkpoints").exists()


def test_workers_do_not_outlive_a_killed_parent(tmp_path: Path, undisturbed: Path) -> None:
    program = "from killed import *; e = find('logreg-breast-cancer'); import sys; from pathlib import Path\n"
    program += "if __name__ == '__main__': run(e, e.config('smoke', 'authors'), Path(sys.argv[1]), jobs=2)\n"
    script = tmp_path / "parent.py"
    script.write_text(program)
    environment = os.environ | {"PYTHONPATH": str(PROGRAM.parent)}
    parent = subprocess.Popen([sys.executable, str(script), str(tmp_path)], env=environment, start_new_session=True)
    group = parent.pid
    _until(lambda: _size(run_folder(tmp_path, CONFIG) / "rows.jsonl") > 0 or parent.poll() is not None, 120)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    _until(lambda: not _alive(group), 60)
    run(EXPERIMENT, CONFIG, tmp_path)
    assert rows(tmp_path) == rows(undisturbed)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _until(true, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)
