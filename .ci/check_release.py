"""Install the wheels of a folder into a clean environment and try what the README promises.

    python .ci/check_release.py dist torch==2.13.0

The library comes first, with its hard dependencies alone, then each extra alone, then the command line, then the paper's package.
"""

import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = {
    "cli": "from vadam.cli.app import app",
    "sklearn": "import openpyxl, pyarrow; from vadam.estimators import VadamRegressor",
    "tune": "import optuna, scipy; from vadam import tuning",
    "plot": "import matplotlib, plotly; from vadam import plot",
    "data": "from vadam import data; data.boston()",
    "sweep": "import dask.distributed, joblib",
    "lightning": "from vadam.integrations.lightning import PosteriorCallback",
    "hf": "import accelerate, peft, transformers",
    "rl": "import mujoco; from vadam.integrations.sb3 import ParameterNoiseDDPG",
}
"""What must run when an extra is installed beside the hard dependencies."""


def main(dist: Path, torch: str) -> None:
    (library,) = dist.glob("vadam-[0-9]*.whl")
    (paper,) = dist.glob("vadam_paper-*.whl")
    for wheel in (library, paper):
        print(f"{wheel.name}: {wheel.stat().st_size:,} bytes, {len(ZipFile(wheel).namelist())} files")
    assert all(name.startswith(("vadam/", "vadam-")) for name in ZipFile(library).namelist()), (
        "files of another package"
    )
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        try_in(Path(folder), library, paper, torch)
    print("Both wheels work.")


def try_in(folder: Path, library: Path, paper: Path, torch: str) -> None:
    python, vadam = str(folder / "bin" / "python"), str(folder / "bin" / "vadam")
    install = [python, "-m", "pip", "install", "--disable-pip-version-check", "-q"]
    pinned = [*install, "-c", str(ROOT / "constraints.txt")]
    run([*install, torch], folder)
    run([*pinned, str(library)], folder)
    snippet = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert snippet
    run([python, "-W", "error", "-c", snippet[1]], folder)
    assert "pip install" in run([vadam], folder, fails=True), "the command does not say what it needs"
    for extra, statement in EXTRAS.items():
        try_extra(folder, f"vadam[{extra}] @ {library.as_uri()}", statement)
    run([*pinned, f"{library}[cli]"], folder)
    assert "pip install ./paper" in run([vadam, "list"], folder, fails=True), "vadam list does not say what it needs"
    run([*pinned, str(paper)], folder)
    assert "logreg-toy" in run([vadam, "list"], folder)
    run([vadam, "report", "--results", str(ROOT / "paper" / "results"), "--out", "report"], folder)
    run([vadam, "run", "theory", "--preset", "smoke", "--out", "results"], folder)


def try_extra(folder: Path, requirement: str, statement: str) -> None:
    """Install an extra into an environment of its own that finds the hard dependencies in the folder; run a statement there."""
    with tempfile.TemporaryDirectory() as own:
        venv.create(own, with_pip=True)
        python = str(Path(own) / "bin" / "python")
        (site,), (base,) = ([*Path(root).glob("lib/python*/site-packages")] for root in (own, folder))
        (site / "hard_dependencies.pth").write_text(f"{base}\n")
        constraints = ["-c", str(ROOT / "constraints.txt")]
        run([python, "-m", "pip", "install", "--disable-pip-version-check", "-q", *constraints, requirement], folder)
        run([python, "-c", statement], folder)


def run(command: list[str], folder: Path, fails: bool = False) -> str:
    """Return what the command prints; raise if it fails, or with ``fails`` if it does not."""
    print(
        "$", " ".join(word if "\n" not in word else "(the first snippet of the README)" for word in command), flush=True
    )
    ended = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if (ended.returncode != 0) != fails:
        sys.exit(f"{ended.stdout}\nexit code {ended.returncode}")
    return ended.stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2])
