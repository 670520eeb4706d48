"""Security: files run no code and allocate nothing unchecked, downloads are checked, nothing is left where others could plant code."""

from __future__ import annotations

import ast
import io
import json
import os
import pickle
import re
import struct
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
import torch

import vadam
from specs import BY_NAME, Problem
from torture import ROOT, bad_files, browser
from torture.case import Break, Case, Failed, Kind, Outcome, Part
from vadam.integrations import checkpoint

REFUSALS = (ValueError, OSError, LookupError, pickle.UnpicklingError, RuntimeError)


class Planted:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def refuses(found: Outcome, subject: str, planted: Path, act: Callable[[], object]) -> None:
    """Raise unless ``act`` refuses its file and the code in it does not run."""
    try:
        act()
    except REFUSALS:
        pass
    else:
        raise Failed(f"{subject} is accepted")
    if planted.exists():
        raise Failed(f"{subject}: code from the file was run")
    found.add("checks")


# Code in files -----------------------------------------------------------------------------------------------------------------


def code_in_files(case: Case) -> Outcome:
    """Give every reader a file that runs code when it is unpickled."""
    from torture.trained import EXPERIMENT
    from vadam.estimators import VadamClassifier, VadamRegressor
    from vadam.tuning.journal import Journal
    from vadam_paper.data.formats import uci_npz
    from vadam_paper.experiments.context import CellContext
    from vadam_paper.experiments.contract import ExperimentError

    found, folder, planted = Outcome(), case.folder, case.folder / "executed"
    bomb, path = pickle.dumps(Planted(planted)), folder / "file.npz"
    torch.save(Planted(planted), folder / "file.pt")
    for content in (bomb, (folder / "file.pt").read_bytes()):
        path.write_bytes(content)
        for subject, load in {
            "vadam.load": vadam.load,
            "VadamRegressor.load": VadamRegressor.load,
            "VadamClassifier.load": VadamClassifier.load,
            "uci_npz": uci_npz,
            "a journal": lambda p: Journal(p, {"cells": ["a"]}),
        }.items():
            refuses(found, f"a pickle given to {subject}", planted, lambda load=load: load(path))
    np.savez(path, X=np.array([Planted(planted)], dtype=object), y=np.zeros(1))
    refuses(found, "an archive of objects given to uci_npz()", planted, lambda: uci_npz(path))
    context = CellContext(EXPERIMENT.config("smoke", "text"), "cell", folder)
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "cell.safetensors").write_bytes(bomb)
    try:
        context.restore()
    except ExperimentError:
        found.add("checks")
    _lightning(found, folder, planted)
    _rank_checkpoints(found, folder, planted)
    return found


def _lightning(found: Outcome, folder: Path, planted: Path) -> None:
    from vadam.integrations import lightning

    torch.save({"state_dict": {}, lightning.KEY: Planted(planted)}, folder / "model.ckpt")
    refuses(found, "a Lightning checkpoint", planted, lambda: lightning.posterior(folder / "model.ckpt"))


def _rank_checkpoints(found: Outcome, folder: Path, planted: Path) -> None:
    problem, spec = Problem(torch.float32), BY_NAME["Vadam"]
    opt = spec.make(problem.model.parameters())
    problem.step(opt, spec)
    path = checkpoint.save(folder / "a", problem.model, opt, step=1)
    whole = (path / ".metadata").read_bytes()
    (path / ".metadata").write_bytes(pickle.dumps(Planted(planted)))
    refuses(found, "the description of a checkpoint", planted, lambda: checkpoint.load(path, problem.model, opt))
    description = pickle.loads(whole)
    description.state_dict_metadata["extra"].size = torch.Size([10**15])
    (path / ".metadata").write_bytes(pickle.dumps(description))
    refuses(found, "a checkpoint with a petabyte", planted, lambda: checkpoint.load(path, problem.model, opt))
    opt.param_groups[0]["note"] = Planted(planted)
    path = checkpoint.save(folder / "b", problem.model, opt, step=1)
    opt.param_groups[0]["note"] = 0
    refuses(found, "a value of a checkpoint", planted, lambda: checkpoint.load(path, problem.model, opt))


# Sizes in files ----------------------------------------------------------------------------------------------------------------


def sizes_in_files(case: Case) -> Outcome:
    """Give every reader a short file that announces a huge content, in a process that may not allocate much."""
    from vadam_paper.data.formats import uci_npz
    from vadam_paper.data.image_sets import idx

    found, folder = Outcome(), case.folder
    bad_files.limit_memory()
    for size in (2**20, 2**31, 2**40, 2**62, 2**63, 2**64 - 1):
        bad_files.check_announced(size, folder)
        found.add("checks")
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 28, 28), }"
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(64)
    path = folder / "huge.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", array)
        archive.writestr("y.npy", array)
    refuses(found, "an archive that announces 6 petabytes", folder / "executed", lambda: uci_npz(path))
    content = struct.pack(">IIII", 2051, 2**31 - 1, 2**16, 2**16) + bytes(16)
    refuses(found, "an IDX file that announces 8 exabytes", folder / "executed", lambda: idx(content, 3))
    return found


# Downloads ---------------------------------------------------------------------------------------------------------------------


def downloads(case: Case) -> Outcome:
    """Look at every address of a download, and let a server send something else."""
    from vadam_paper.data import digest, registry
    from vadam_paper.data.download import fetch
    from vadam_paper.data.errors import ChecksumMismatch
    from vadam_paper.data.image_sets import IMAGE_SETS

    found, folder = Outcome(), case.folder
    files = [file for dataset in registry.DATASETS.values() for form in dataset.on_disk for file in form.files]
    addresses = {str(file.url): file.sha256 for file in files if file.url}
    addresses |= {one.url + name: sha256 for one in IMAGE_SETS.values() for name, sha256 in one.sha256.items()}
    for url, sha256 in addresses.items():
        if not url.startswith("https://") or not re.fullmatch("[0-9a-f]{64}", sha256):
            raise Failed(f"{url} is not https, or has no checksum")
        found.add("checks")
    (folder / "data.txt").write_text("not what was published")
    with browser.served(folder) as (address, _):
        try:
            fetch(f"{address}/data.txt", folder / "kept.txt", sha256="0" * 64, checksum=digest.of_bytes)
        except ChecksumMismatch:
            found.add("checks")
    if any(folder.glob("kept.txt*")) and not all(path.suffix == ".lock" for path in folder.glob("kept.txt*")):
        raise Failed("a download with another checksum was kept")
    return found


# What is written where ---------------------------------------------------------------------------------------------------------

PROGRAM = """
import sys, torch, vadam
model = torch.nn.Linear(3, 1)
opt = vadam.Vadam(model.parameters(), num_data=10)
opt.step(lambda: (opt.zero_grad(), loss := model(torch.ones(4, 3)).square().mean(), loss.backward())[1])
vadam.save(sys.argv[1], opt.posterior(model))
vadam.load(sys.argv[1])
"""


def places(case: Case) -> Outcome:
    """Train, save and load with an empty home and an empty temporary folder: nothing appears there, so nobody can plant code."""
    found, folder = Outcome(), case.folder
    home, temporary, out = (folder / name for name in ("home", "temporary", "out"))
    for place in (home, temporary, out):
        place.mkdir()
    environment = {**os.environ, "HOME": str(home), "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(sys.path)}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    command = [sys.executable, "-c", PROGRAM, str(out / "posterior.safetensors")]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    if result.returncode:
        raise Failed(result.stderr[-1500:])
    if left := [
        str(path.relative_to(folder)) for place in (home, temporary) for path in place.rglob("*") if path.is_file()
    ]:
        raise Failed(f"a step, a save and a load left files: {left}")
    if [path.name for path in out.iterdir()] != ["posterior.safetensors"]:
        raise Failed("vadam.save left more than its file")
    found.add("checks", 3)
    _planted_link(found, folder)
    _planted_cache(found, folder)
    return found


def _planted_link(found: Outcome, folder: Path) -> None:
    """Replace a target that is somebody else's link, without writing through it; only root can make such a link."""
    from vadam import atomic

    if os.geteuid():
        return
    secret = folder / "secret"
    secret.write_text("untouched")
    (folder / "target").symlink_to(secret)
    os.lchown(folder / "target", 65534, 65534)
    atomic.write_text(folder / "target", "new")
    if secret.read_text() != "untouched":
        raise Failed("an atomic write follows a planted link")
    found.add("checks")


def _planted_cache(found: Outcome, folder: Path) -> None:
    """Refuse a cache of native code that belongs to somebody else."""
    from vadam.compiling import check_cache

    planted = folder / "planted"
    planted.mkdir()
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(planted)
    own = os.getuid
    os.getuid = lambda: own() + 1  # type: ignore[assignment]
    try:
        check_cache()
    except PermissionError:
        found.add("checks")
    else:
        raise Failed("native code from the cache of another user is loaded")
    finally:
        os.getuid = own


# The sources -------------------------------------------------------------------------------------------------------------------

FORBIDDEN_IMPORTS = {
    "pickle": {"checkpoint_reader.py"},
    "shelve": set(),
    "marshal": set(),
    "dill": set(),
    "cloudpickle": set(),
}
FORBIDDEN_CALLS = {"eval", "exec", "mktemp", "system", "popen"}


def sources(case: Case) -> Outcome:
    """Read every source file: no pickle, no eval, no shell, no load that could unpickle."""
    found = Outcome()
    for path in sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "paper" / "src").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text())):
            if said := _forbidden(node, path.name):
                raise Failed(f"{path.relative_to(ROOT)}, line {getattr(node, 'lineno', 0)}: {said}")
        found.add("checks")
    return found


def _forbidden(node: ast.AST, name: str) -> str | None:
    if isinstance(node, ast.Import | ast.ImportFrom):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        bad = [m for m in modules if m in FORBIDDEN_IMPORTS and name not in FORBIDDEN_IMPORTS[m]]
        return f"imports {bad[0]}" if bad else None
    if not isinstance(node, ast.Call):
        return None
    words = {word.arg: word.value for word in node.keywords}
    called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    owner = getattr(getattr(node.func, "value", None), "id", "")
    if called in FORBIDDEN_CALLS and (isinstance(node.func, ast.Name) or owner in ("os", "tempfile")):
        return f"calls {called}"
    if (owner, called) == ("torch", "load") and getattr(words.get("weights_only"), "value", None) is not True:
        return "torch.load without weights_only=True"
    if (owner, called) == ("np", "load") and getattr(words.get("allow_pickle"), "value", None) is not False:
        return "numpy.load without allow_pickle=False"
    if getattr(words.get("shell"), "value", False) is not False:
        return "runs a shell"
    return None


# Dependencies ------------------------------------------------------------------------------------------------------------------

COPYLEFT = re.compile(r"(?<!L)GPL|AGPL", re.IGNORECASE)
EXTRAS = ("", "tune", "sklearn", "sweep", "cli", "plot", "data", "rl", "lightning", "hf")


def dependencies(case: Case) -> Outcome:
    """List the licence of every package that vadam and its extras install; ask for known vulnerabilities where there is a network."""
    found = Outcome()
    packages = closure()
    hard = closure(("",))
    for name, version in sorted(packages.items()):
        licence = licence_of(name)
        if not licence:
            raise Failed(f"{name} {version} names no licence")
        if COPYLEFT.search(licence) and name in hard:
            raise Failed(f"{name} {version}, which vadam always needs, has the licence {licence}")
        found.notes.append(f"{name} {version}: {licence}{'' if name in hard else ' (extra)'}")
        found.add("checks")
    found.notes.append(vulnerabilities(packages))
    return found


def closure(extras: tuple[str, ...] = EXTRAS) -> dict[str, str]:
    """Return name and version of all installed packages that vadam and its extras require, directly or not."""
    packages: dict[str, str] = {}
    waiting = [("vadam", extra) for extra in extras]
    seen = set(waiting)
    while waiting:
        name, extra = waiting.pop()
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        if name != "vadam":
            packages[found.metadata["Name"]] = found.version
        for line in found.requires or ():
            required, _, condition = line.partition(";")
            asked = re.search(r"extra == ['\"]([\w.-]+)['\"]", condition)
            if (asked is None) != (not extra) or (asked is not None and asked[1] != extra):
                continue
            match = re.match(r"([\w.-]+)(?:\[([\w,.-]+)\])?", required.strip())
            assert match is not None
            for wanted in ("", *(match[2] or "").split(",")):
                if (pair := (match[1], wanted)) not in seen:
                    seen.add(pair)
                    waiting.append(pair)
    return packages


def licence_of(name: str) -> str:
    """Return what a package says about its licence, in a few words."""
    about = distribution(name).metadata
    classified = [
        line.split("::")[-1].strip() for line in about.get_all("Classifier", []) if line.startswith("License ::")
    ]
    first_line = (about.get("License") or "").strip().splitlines()[:1]
    return about.get("License-Expression") or ", ".join(classified) or (first_line[0][:60] if first_line else "")


def vulnerabilities(packages: dict[str, str]) -> str:
    """Ask osv.dev about the installed versions; return what it says, or that it cannot be reached."""
    queries = [
        {"package": {"name": name, "ecosystem": "PyPI"}, "version": v.split("+")[0]} for name, v in packages.items()
    ]
    request = urllib.request.Request("https://api.osv.dev/v1/querybatch", json.dumps({"queries": queries}).encode())
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            answers = json.load(io.BytesIO(response.read()))["results"]
    except (OSError, ValueError, LookupError) as error:
        return f"known vulnerabilities: not checked, osv.dev cannot be reached ({type(error).__name__})"
    known = [
        f"{name} ({', '.join(v['id'] for v in a['vulns'])})"
        for name, a in zip(packages, answers, strict=True)
        if a.get("vulns")
    ]
    return "known vulnerabilities: " + ("none" if not known else "; ".join(known))


KIND = Kind(
    "security",
    "No file runs code or allocates unchecked memory, downloads come by https with checksums, and no code is loaded from shared places.",
    "checks",
    1,
    1,
    {
        "code in files": Part(code_in_files),
        "sizes in files": Part(sizes_in_files),
        "downloads": Part(downloads),
        "places": Part(places, seconds=200),
        "sources": Part(sources),
        "dependencies": Part(dependencies),
    },
    grows=False,
    breaks=(
        Break(
            "src/vadam/integrations/checkpoint_reader.py",
            "        if (module, name) in _TYPES or is_dtype:\n",
            "        if True:\n",
            "code in files",
            "a checkpoint from somebody else runs code when it is loaded",
        ),
    ),
)
