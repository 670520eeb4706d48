"""Damaged models, posteriors, checkpoints, journals and results: refused in words, or without a difference."""

from __future__ import annotations

import atexit
import copy
import json
import resource
import shutil
import struct
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file
from safetensors.torch import save as serialized

import vadam
from specs import BY_NAME, SPECS, Problem, same, snapshot
from torture import processes
from torture.bad_arguments import STEP_REFUSALS, check_sound
from torture.bad_tables import command, listed
from torture.case import Case, Failed, Outcome
from torture.fuzzing import fuzz
from torture.mutation import byte_damage, damaged, damaged_tree, json_damage
from vadam import persist

MEMORY = 2 << 30
"""Bytes that a process may allocate besides what it has: a size from a file that is not checked exceeds it."""


def limit_memory() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))


@cache
def originals() -> dict[str, bytes]:
    """Return the content of a saved file of every kind, made once for all cases."""
    with tempfile.TemporaryDirectory(prefix="torture-originals-") as name:
        found: dict[str, bytes] = processes.call(_saved_files, folder=Path(name))
    return found


def _saved_files() -> dict[str, bytes]:
    from vadam.estimators import VadamClassifier, VadamRegressor

    torch.manual_seed(0)
    x = np.linspace(0, 1, 24)[:, None]
    quick: dict[str, Any] = {"tune": False, "epochs": 1, "members": 2, "hidden": (3,), "random_state": 0}
    found: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "file"
        for model, y in ((VadamRegressor(**quick), x[:, 0]), (VadamClassifier(**quick), np.arange(24) % 3)):
            model.fit(x, y).save(path)
            found[type(model).__name__] = path.read_bytes()
        for spec in ("Vadam", "FullVON", "EVON"):
            problem = Problem(torch.float32)
            opt = BY_NAME[spec].make_for(problem.model)
            problem.step(opt, BY_NAME[spec])
            vadam.save(path, opt.posterior(problem.model), config={"note": [1, {"a": None}]})
            found[spec] = path.read_bytes()
    return found


def load_any(kind: str, path: Path) -> Any:
    from vadam import estimators

    if kind.startswith("Vadam") and kind != "Vadam":
        return getattr(estimators, kind).load(path)
    return vadam.load(path)


def check_bytes(example: tuple[str, tuple[str, float, float, int]], folder: Path) -> str:
    kind, damage = example
    original = originals()[kind]
    content = damaged(original, damage)
    path = folder / "file"
    path.write_bytes(content)
    try:
        load_any(kind, path)
    except ValueError as error:
        if "file" not in str(error):
            raise Failed(f"a damaged {kind} is refused without its name: {error}") from error
        if content == original:
            raise Failed(f"an undamaged {kind} is refused: {error}") from error
        return "files refused"
    if content != original:
        raise Failed(f"a {kind} loads although its bytes were changed: {damage}")
    return "files without a difference"


def check_header(example: tuple[str, tuple[str, float, Any]], folder: Path) -> str:
    """Load a file whose description was edited and whose checksum is right again: refused, or usable."""
    kind, damage = example
    path, edited = folder / "original", folder / "file"
    path.write_bytes(originals()[kind])
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["vadam"])
    header = damaged_tree(header, damage)
    metadata = {"vadam": json.dumps(header), **persist.SHA256}
    edited.write_bytes(persist.sealed(serialized(load_file(path), metadata=metadata)))
    try:
        loaded = load_any(kind, edited)
    except ValueError as error:
        if "file" not in str(error):
            raise Failed(f"an edited {kind} is refused without its name: {error}") from error
        return "headers refused"
    x = np.linspace(0, 1, 3)[:, None]
    try:
        loaded.predict(x) if hasattr(loaded, "predict") else loaded.posterior.sample()
    except (ValueError, TypeError, RuntimeError) as error:
        raise Failed(f"an edited {kind} loads ({damage}), but cannot be used: {error!r}") from error
    return "headers accepted"


def files(case: Case) -> Outcome:
    originals()
    limit_memory()
    kinds = st.sampled_from([*originals()])
    found = fuzz(case, st.tuples(kinds, byte_damage()), lambda e: check_bytes(e, case.folder), examples=70)
    found.merge(fuzz(case, st.tuples(kinds, json_damage()), lambda e: check_header(e, case.folder), examples=50))
    found.merge(fuzz(case, st.integers(0, 2**64 - 1), lambda size: check_announced(size, case.folder), examples=10))
    return found


def check_announced(size: int, folder: Path) -> str:
    """Load a file of a few bytes that announces a tensor of any size: nothing is allocated for it."""
    header = json.dumps(
        {"mean/w": {"dtype": "F32", "shape": [size], "data_offsets": [0, min(4 * size, 2**63)]}}
    ).encode()
    path = folder / "file"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
    try:
        vadam.load(path)
    except ValueError:
        return "files refused"
    raise Failed(f"a file that announces {size} numbers and has 4 loads")


# Checkpoints of optimizers -----------------------------------------------------------------------------------------------------


ODD_STATE: list[Any] = [
    None,
    0.0,
    -1.0,
    float("nan"),
    "x",
    [],
    {},
    torch.zeros(3),
    torch.ones(2, 2, 2),
    torch.zeros((), dtype=torch.int64),
]


@st.composite
def checkpoints(draw: st.DrawFn) -> tuple[str, str, str, float, Any]:
    how, place, value = draw(json_damage())
    if draw(st.booleans()):
        value = draw(st.sampled_from(ODD_STATE))
    part = draw(st.sampled_from(("state", "param_groups", "vadam", "whole")))
    return draw(st.sampled_from([spec.name for spec in SPECS])), part, how, place, value


def check_checkpoint(example: tuple[str, str, str, float, Any]) -> str:
    name, part, how, place, value = example
    torch.manual_seed(0)
    spec, problem = BY_NAME[name], Problem(torch.float32)
    opt = spec.make_for(problem.model, generator=torch.Generator().manual_seed(1))
    problem.step(opt, spec)
    saved = copy.deepcopy(opt.state_dict())
    broken = (
        damaged_tree(saved, (how, place, value))
        if part == "whole"
        else {**saved, part: damaged_tree(saved[part], (how, place, value))}
    )
    problem.step(opt, spec)
    before, noise = [*problem.weights(), *snapshot(opt)], opt.generator.get_state()
    groups = [{k: v for k, v in group.items() if k != "params"} for group in opt.param_groups]
    given = f"{name}: {part} of a checkpoint, {how} at {place:.3f} by {value!r}"
    try:
        opt.load_state_dict(broken)
    except Exception as error:
        unchanged = same([*problem.weights(), *snapshot(opt)], before) and torch.equal(opt.generator.get_state(), noise)
        same_groups = str(groups) == str(
            [{k: v for k, v in group.items() if k != "params"} for group in opt.param_groups]
        )
        if not unchanged or not same_groups:
            raise Failed(f"{given} is refused ({error!r}), but something was loaded") from error
        problem.step(opt, spec)
        check_sound(given, opt)
        return "checkpoints refused"
    try:
        problem.step(opt, spec)
    except STEP_REFUSALS:
        return "checkpoints refused by the next step"
    except Exception as error:
        raise Failed(f"{given} is loaded, and the next step raises {error!r}") from error
    return "checkpoints loaded"


def states(case: Case) -> Outcome:
    return fuzz(case, checkpoints(), check_checkpoint, examples=60)


# Results and journals ----------------------------------------------------------------------------------------------------------


RUN = ("run", "theory", "--preset", "smoke", "--jobs", 1, "--out")


@st.composite
def results(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "file": draw(st.sampled_from(("manifest.json", "rows.jsonl"))),
        "command": draw(st.sampled_from((*["list"] * 6, "run", "report"))),
        "bytes": draw(st.one_of(st.none(), byte_damage())),
        "json": draw(json_damage()),
        "line": draw(st.integers(0, 50)),
    }


def check_results(example: dict[str, Any], intact: Path, folder: Path) -> str:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(intact, folder)
    path = folder / "theory" / "smoke-text" / example["file"]
    content = path.read_bytes()
    if example["bytes"] is not None:
        path.write_bytes(damaged(content, example["bytes"]))
    elif example["file"] == "manifest.json":
        path.write_text(json.dumps(damaged_tree(json.loads(content), example["json"])))
    else:
        lines = content.splitlines()
        number = example["line"] % len(lines)
        lines[number] = json.dumps(damaged_tree(json.loads(lines[number]), example["json"])).encode()
        path.write_bytes(b"\n".join(lines) + b"\n")
    if example["command"] == "list":
        code = listed(["list", "--results", str(folder)])
    elif example["command"] == "run":
        code, _ = command(*RUN, folder)
    else:
        code, _ = command("report", "--results", folder, "--out", folder / "page")
    return f"results {'refused' if code else 'read'}"


@cache
def intact_results() -> Path:
    """Return the folder of an experiment's results, made once for all cases."""
    folder = Path(tempfile.mkdtemp(prefix="torture-intact-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    processes.call(lambda: command(*RUN, folder / "results"), folder=folder, seconds=400)
    return folder / "results"


def results_part(case: Case) -> Outcome:
    return fuzz(case, results(), lambda e: check_results(e, intact_results(), case.folder / "work"), examples=40)


def warm() -> None:
    """Make the files that cases damage."""
    originals()
    intact_results()


def check_journal(example: Any, folder: Path) -> str:
    from vadam.tuning.journal import Journal, JournalError

    path = folder / "journal.jsonl"
    path.unlink(missing_ok=True)
    search = {"cells": ["a", "b"], "space": {"lr": [0.1, 1.0]}}
    journal = Journal(path, search)
    journal.add(
        [("a", {"lr": 0.5}, [1.0, 2.0]), ("b", {"lr": 0.25}, [float("inf"), 0.0]), ("a", {"lr": 0.75}, [3.0, 1.0])]
    )
    whole, content = journal.trials, path.read_bytes()
    if isinstance(example, tuple) and len(example) == 4:
        path.write_bytes(damaged(content, example))
    else:
        lines = content.splitlines()
        path.write_bytes(
            b"\n".join([*lines[:2], json.dumps(damaged_tree(json.loads(lines[2]), example)).encode(), *lines[3:]])
            + b"\n"
        )
    try:
        found = Journal(path, search).trials
    except JournalError:
        return "journals refused"
    for trials in found.values():
        for trial in trials:
            if not isinstance(trial.point, dict) or not all(
                isinstance(value, float) for value in (*trial.folds, trial.value)
            ):
                raise Failed(f"a damaged journal gives the trial {trial} ({example})")
    return "journals read" if found == whole else "journals read in part"


def journals(case: Case) -> Outcome:
    return fuzz(case, st.one_of(byte_damage(), json_damage()), lambda e: check_journal(e, case.folder), examples=80)
