"""Kills: kill -9 at random moments of an experiment, a fit, a save, a search and a checkpoint of several ranks.

Whoever was killed is started again. Files are then the old ones or the new ones, and the end is that of a run without kills.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.parallel import DistributedDataParallel

import vadam
from specs import BY_NAME
from torture import bad_tables, processes, ranks
from torture.case import Break, Case, Failed, Kind, Outcome, Part
from torture.trained import EXPERIMENT
from vadam.ensemble import MLP, Member, Method
from vadam.gaussian import MeanFieldGaussian
from vadam.integrations import checkpoint
from vadam.tuning import tune

KILLS = 25
"""Kills of one case."""


def seconds_of(act: Callable[[], object], log: Path) -> float:
    began = time.monotonic()
    child = processes.start(act, log)
    if processes.finish(child):
        raise Failed(f"without a kill: {processes.tail(log)}")
    return time.monotonic() - began


def killed_until_done(
    case: Case,
    found: Outcome,
    act: Callable[[], object],
    look: Callable[[], None],
    again: Callable[[], None],
    lives: float = 1.0,
) -> None:
    """Start ``act`` and kill it, KILLS times; ``look`` after each kill, then let it end.

    Work that resumes is killed within a share 1/``lives`` of its time. Work that was through before it was killed often enough is
    undone by ``again`` and begins anew.
    """
    log = case.folder / "log.txt"
    longest = 1.1 * seconds_of(act, log) / lives
    again()
    kills = 0
    while kills < KILLS:
        if processes.kill_after(processes.start(act, log), case.random.uniform(0.0, longest)):
            kills += 1
            found.add("kills")
        else:
            again()
        look()
    if processes.finish(processes.start(act, log)):
        raise Failed(f"after {KILLS} kills: {processes.tail(log)}")


def parsed(content: bytes) -> Any:
    """Return header and tensors of a safetensors file; the order of its header, and so its checksum, is random."""
    try:
        size = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:size])
        header["__metadata__"].pop("sha256")
    except (ValueError, LookupError):
        return content
    return header, content[size:]


def leftovers(folder: Path) -> None:
    if left := [str(path) for path in folder.rglob("*") if path.name.endswith(".tmp")]:
        raise Failed(f"temporary files stay: {left}")


# An experiment -----------------------------------------------------------------------------------------------------------------


def experiment(case: Case) -> Outcome:
    """``vadam run``: rows are whole, none is lost or doubled, and the training resumed from its checkpoints has the same end."""
    from vadam_paper.experiments import context
    from vadam_paper.experiments.runner import run, run_folder

    context.SECONDS_BETWEEN_CHECKPOINTS = 0.0
    config, found = EXPERIMENT.config("smoke", "text"), Outcome()
    out, undisturbed = case.folder / "killed", case.folder / "undisturbed"
    rows = run_folder(out, config) / "rows.jsonl"
    seen: dict[str, Any] = {}

    def look() -> None:
        now = rows_of(rows)
        if any(now.get(cell) != result for cell, result in seen.items()):
            raise Failed("a row that had been written is gone or different")
        seen.update(now)

    def look_and_tear() -> None:
        look()
        if lost := torn(rows, case.random):
            del seen[lost]
            found.add("torn rows")

    def again() -> None:
        shutil.rmtree(out, ignore_errors=True)
        seen.clear()

    seconds_of(lambda: run(EXPERIMENT, config, undisturbed), case.folder / "log.txt")
    killed_until_done(case, found, lambda: run(EXPERIMENT, config, out), look_and_tear, again, lives=8)
    if rows_of(rows) != rows_of(run_folder(undisturbed, config) / "rows.jsonl"):
        raise Failed("the results differ from those of a run without kills")
    manifest = json.loads((rows.parent / "manifest.json").read_text())
    if manifest["cells_done"] != manifest["cells"] or "running" in manifest or (rows.parent / "checkpoints").exists():
        raise Failed(f"the manifest or a checkpoint was left as in a running experiment: {manifest}")
    leftovers(out)
    return found


def rows_of(path: Path) -> dict[str, Any]:
    """Return the results of whole rows; raise if a cell is there twice."""
    content = path.read_bytes() if path.exists() else b""
    rows = [json.loads(line) for line in content[: content.rfind(b"\n") + 1].splitlines()]
    if len({row["cell"] for row in rows}) < len(rows):
        raise Failed("a cell has two rows")
    return {row["cell"]: row["result"] for row in rows}


def torn(path: Path, random: random.Random) -> str | None:
    """Cut off a part of the last row, as a machine that loses power does, one time in three; return its cell, None without a cut."""
    content = path.read_bytes() if path.exists() else b""
    if not content.endswith(b"\n") or random.random() < 2 / 3:
        return None
    start = content.rfind(b"\n", 0, len(content) - 1) + 1
    path.write_bytes(content[: random.randrange(start + 1, len(content))])
    return str(json.loads(content[start:])["cell"])


# A fit -------------------------------------------------------------------------------------------------------------------------


def fit(case: Case) -> Outcome:
    """``vadam fit``: model and page are the old ones or the new ones, never a part; a whole fit leaves no temporary file."""
    from vadam.estimators import VadamRegressor

    found, folder = Outcome(), case.folder
    rows = "".join(f"{k % 7},{k % 3},{k * 0.5 + k % 5}\n" for k in range(24))
    (folder / "table.csv").write_text("a,b,y\n" + rows)
    out, page = folder / "m.safetensors", folder / "m.html"

    def act() -> None:
        bad_tables.small_trainings()
        command = ("fit", folder / "table.csv", "--target=y", "--out", out, "--budget", 0, "--members", 1)
        code, answer = bad_tables.command(*command)
        if code:
            raise Failed(f"vadam fit: {answer}")

    def look() -> None:
        if parsed(out.read_bytes()) not in (old, new):
            raise Failed(f"the model is neither the old one nor the new one: {out.stat().st_size} bytes")
        if not page.read_bytes().rstrip().endswith((b"</html>", b"old page")):
            raise Failed("the page is a part of one")

    def again() -> None:
        out.write_bytes(b"an old model")
        page.write_bytes(b"old page")

    seconds_of(act, folder / "log.txt")
    old, new = b"an old model", parsed(out.read_bytes())
    again()
    killed_until_done(case, found, act, look, again)
    if parsed(out.read_bytes()) != new:
        raise Failed("the model differs from that of a fit without kills")
    VadamRegressor.load(out)
    leftovers(folder)
    return found


# A save ------------------------------------------------------------------------------------------------------------------------


def save(case: Case) -> Outcome:
    """``vadam.save`` over an older file: afterwards one of the two posteriors is there, whole."""
    found, path = Outcome(), case.folder / "posterior.safetensors"
    size = case.random.choice((10, 10_000, 300_000))
    posteriors = [MeanFieldGaussian({"w": torch.full((size,), float(k))}, {"w": torch.ones(size)}) for k in range(2)]
    contents = []
    for posterior in posteriors:
        vadam.save(path, posterior)
        contents.append(parsed(path.read_bytes()))

    def act() -> None:
        while True:
            for posterior in posteriors:
                vadam.save(path, posterior)

    for _ in range(KILLS):
        child = processes.start(act, case.folder / "log.txt")
        if not processes.kill_after(child, case.random.uniform(0.0, 0.03)):
            raise Failed(processes.tail(case.folder / "log.txt"))
        found.add("kills")
        if parsed(path.read_bytes()) not in contents:
            raise Failed(f"the file is none of the two that were saved ({path.stat().st_size} bytes)")
        vadam.load(path)
    vadam.save(path, posteriors[0])
    leftovers(case.folder)
    return found


# A search ----------------------------------------------------------------------------------------------------------------------


def sweep(case: Case) -> Outcome:
    """``vadam.tuning.tune`` with a journal: no trial is lost or doubled, and the search ends where an undisturbed one ends."""
    found, path, expected = Outcome(), case.folder / "journal.jsonl", case.folder / "expected.jsonl"
    numbers = np.random.default_rng(case.random.randrange(1000))
    x = numbers.normal(size=(24, 2))
    y = x[:, 0] + 0.3 * numbers.normal(size=24)
    halves = np.arange(12), np.arange(12, 24)
    cells = {
        name: [Member(x, y, train=halves[1 - k], test=halves[k], seed=k + 10 * len(name)) for k in range(2)]
        for name in ("a", "bb")
    }
    space = {"prior_precision": (0.01, 100.0), "noise_precision": (1.0, 100.0)}
    seen: list[str] = []

    def search(journal: Path) -> None:
        method = Method("vadam", lr=0.05, betas=(0.9, 0.99))
        tune(
            cells,
            space,
            MLP(2, 4, 1),
            method,
            trials=8,
            startup=6,
            epochs=2,
            batch_size=8,
            journal=journal,
            compiled=False,
        )

    def look() -> None:
        content = path.read_text() if path.exists() else ""
        lines = content[: content.rfind("\n") + 1].splitlines()
        if len(seen) > 1 and lines[: len(seen)] != seen:
            raise Failed("a trial that had been written is gone or different")
        seen[:] = lines

    def again() -> None:
        path.unlink(missing_ok=True)
        seen.clear()

    seconds_of(lambda: search(expected), case.folder / "log.txt")
    killed_until_done(case, found, lambda: search(path), look, again, lives=2)
    if sorted(path.read_text().splitlines()) != sorted(expected.read_text().splitlines()):
        raise Failed("the trials differ from those of a search without kills")
    return found


# Ranks -------------------------------------------------------------------------------------------------------------------------

STEPS = 12


def distributed_training(folder: Path, end: Path, name: str) -> None:
    """Resume from the newest checkpoint, save one every second step, write the end."""
    spec, model = BY_NAME[name], DistributedDataParallel(ranks.network())
    torch.manual_seed(torch.distributed.get_rank())
    opt = spec.make(model.parameters()).attach(model)
    newest = checkpoint.latest(folder)
    done = checkpoint.load(newest, model, opt)["step"] if newest else 0
    for step in range(done, STEPS):
        x, y = ranks.batch(step, torch.distributed.get_rank())
        opt.zero_grad()
        (model(x) - y).square().mean().backward()
        opt.step()
        if step % 2:
            checkpoint.save(folder, model, opt, step=step + 1)
    torch.save(
        [*ranks.whole_state(opt), torch.get_rng_state()], end.with_name(f"{end.name}-{torch.distributed.get_rank()}")
    )


def rank_checkpoints(case: Case) -> Outcome:
    """Kill two ranks that save checkpoints: those that have a name are whole, and the end is that of a run without kills."""
    found, folder = Outcome(), case.folder / "checkpoints"
    name = case.random.choice(("Vadam", "VOGN", "IVON", "BBVI", "EVON"))
    expected, end = case.folder / "expected", case.folder / "end"
    began = time.monotonic()
    ranks.run(lambda: distributed_training(case.folder / "undisturbed", expected, name), 2, case.folder)
    longest = time.monotonic() - began
    kills = 0
    while kills < KILLS:
        newest = checkpoint.latest(folder)
        children = ranks.start(lambda: distributed_training(folder, end, name), 2, case.folder, seconds=120)
        victims = case.random.sample(children, 2)
        at_work = processes.kill_after(victims[0], case.random.uniform(0.0, longest))
        time.sleep(case.random.choice((0.0, 0.0, 0.05)))
        other = killed(victims[1])
        kills += at_work + other
        found.add("kills", at_work + other)
        now = checkpoint.latest(folder)
        if newest is not None and (now is None or now.name < newest.name):
            raise Failed(f"the checkpoint {newest.name} is gone, the newest is {now}")
        if now is not None and now.name.endswith(f"{STEPS:08d}"):
            shutil.rmtree(folder)
    ranks.run(lambda: distributed_training(folder, end, name), 2, case.folder)
    for rank in range(2):
        a, b = (torch.load(path.with_name(f"{path.name}-{rank}"), weights_only=True) for path in (end, expected))
        if not all(map(torch.equal, a, b)):
            raise Failed(f"{name}: rank {rank} ends elsewhere than without kills")
    return found


def killed(child: int) -> bool:
    """Kill a process that may have ended because its peer is dead; return True if it was still at work."""
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def warm() -> None:
    bad_tables.warm()
    import optuna  # noqa: F401

    from vadam_paper.experiments.manifest import commit

    commit()  # of git, once


KIND = Kind(
    "kills",
    "kill -9 at any moment loses, doubles and halves nothing; what is started again ends where it would have ended without.",
    "kills",
    125,
    500,
    {
        "run": Part(experiment, seconds=400),
        "fit": Part(fit, seconds=400),
        "save": Part(save, seconds=400),
        "sweep": Part(sweep, seconds=400),
        "checkpoint of ranks": Part(rank_checkpoints, seconds=400),
    },
    warm=warm,
    breaks=(
        Break(
            "src/vadam/atomic.py",
            "            os.replace(file.name, path)\n",
            "            path.write_bytes(content)\n",
            "save",
            "a file that is being replaced is lost if the process dies",
        ),
        Break(
            "paper/src/vadam_paper/experiments/runner.py",
            "        todo = [key for key in costs if key not in done]\n",
            "        todo = [*costs]\n",
            "run",
            "an experiment that is started again computes its cells again and doubles their rows",
        ),
        Break(
            "paper/src/vadam_paper/experiments/store.py",
            "            self._file.truncate(whole)\n",
            "            pass\n",
            "run",
            "the row after a torn one is glued to it, and both are lost",
        ),
    ),
)
