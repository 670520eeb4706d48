"""Soak: hours of training with random exceptions in one process. Memory stays flat, the weights hold the mean, nothing piles up.

Some trainings live as long as the process, others are made, disturbed and dropped. Every moment of a step may raise: the forward pass,
the backward pass, the block of a sample, Ctrl-C, an overflow. What a user does between steps happens at random, too.
"""

from __future__ import annotations

import copy
import gc
import io
import random
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import vadam
from specs import SPECS
from torture.case import Break, Case, Failed, Kind, Outcome, Part
from torture.signals import Raised, Training

WARM_UP = 0.25
"""Share of the time after which memory is no longer expected to grow: allocators and caches have then seen every case."""
FLAT = 1.01
MOST_SECONDS_BETWEEN_LOOKS = 5.0
BACKENDS = ("native", "plain")
WIDTH = 12


def memory() -> float:
    """Return the megabytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def all_trainings() -> Iterator[Training]:
    for seed, spec in enumerate(SPECS):
        for way in spec.ways:
            for backend in BACKENDS:
                yield Training(spec, way, {"backend": backend, "samples": 1 + seed % 2}, seed, WIDTH)


def disturb(training: Training, random: random.Random) -> None:
    """Take a step that raises, overflows or is left in the middle."""
    how = random.choice(("forward", "backward", "interrupt", "overflow", "left", "dropped gradient"))
    error: Any = KeyboardInterrupt if how == "interrupt" else Raised
    chosen = random.choice(("forward", "backward")) if how == "interrupt" else how

    def act(moment: str) -> None:
        if moment == chosen:
            raise error

    training.act = act
    training.factor = float("inf") if how == "overflow" else 1.0
    try:
        if how == "left" and "context" in training.spec.ways:
            with training.opt.sampled_params():
                raise Raised
        elif how == "dropped gradient" and training.way == "attach":
            training.model(training.x).sum()  # a sample without a backward pass
            training.opt.eval()
        else:
            training.step()
    except (Raised, KeyboardInterrupt):
        pass
    finally:
        training.act, training.factor = (lambda _: None), 1.0
    training.opt.eval()


def use(training: Training, random: random.Random) -> None:
    """Do what users do between steps."""
    opt, model = training.opt, training.model
    how = random.choice(("state", "posterior", "predict", "copy", "save", "attach again", "groups"))
    if how == "state":
        opt.load_state_dict(copy.deepcopy(opt.state_dict()))
    elif how == "posterior":
        opt.posterior(model)
    elif how == "predict":
        vadam.predict(model, opt.posterior(model), training.x, samples=4, likelihood=vadam.Gaussian(1.0))
    elif how == "copy":
        copy.deepcopy(opt)
    elif how == "save":
        torch.save(opt.state_dict(), io.BytesIO())
    elif how == "attach again" and (training.way == "attach" or training.spec.needs_attach):
        opt.detach()
        opt.attach(model)
    elif how == "groups":
        for group in opt.param_groups:
            group["lr"] *= random.choice((0.99, 1.01))


def check(training: Training) -> None:
    opt = training.opt
    if opt.holds_sample:
        raise Failed(f"{training.spec} {training.way}: the weights still hold a sample")
    if not all(bool(p.isfinite().all()) for p in training.model.parameters()):
        raise Failed(f"{training.spec} {training.way}: a weight is not finite")
    hooks = sum(len(m._forward_pre_hooks) + len(m._forward_hooks) for m in training.model.modules())
    if hooks > 20:
        raise Failed(f"{training.spec} {training.way}: {hooks} hooks have piled up on the model")


class Looks:
    """Looks at the memory of the process at regular times."""

    def __init__(self, seconds: float) -> None:
        self.every = min(MOST_SECONDS_BETWEEN_LOOKS, seconds / 40)
        self.began = self.last = time.monotonic()
        self.seconds = seconds
        self.found: list[tuple[float, float, int]] = []

    @property
    def share(self) -> float:
        return (time.monotonic() - self.began) / self.seconds

    def look(self) -> None:
        if time.monotonic() - self.last > self.every:
            gc.collect()
            self.found.append((self.share, memory(), len(gc.get_objects())))
            self.last = time.monotonic()

    def growth(self, column: int) -> float:
        """Return the largest value of the last quarter over the largest of the quarter after the warm-up."""
        early = [row[column] for row in self.found if WARM_UP <= row[0] < 2 * WARM_UP]
        late = [row[column] for row in self.found if row[0] >= 1 - WARM_UP]
        return max(late) / max(early)


def soak(case: Case) -> Outcome:
    random, found = case.random, Outcome()
    torch.set_num_threads(1)
    lasting, looks = [*all_trainings()], Looks(case.amount)
    while looks.share < 1.0:
        for training in random.sample(lasting, len(lasting)):
            for _ in range(random.randrange(1, 6)):
                training.step()
                found.add("steps")
            act: Callable[[Training, Any], None] = random.choice((disturb, disturb, use))
            act(training, random)
            found.add("exceptions" if act is disturb else "other calls")
            check(training)
            looks.look()
        options = {"backend": random.choice(BACKENDS)}
        short = Training(random.choice(SPECS), "closure", options, random.randrange(5), WIDTH)
        short.step()
        short.opt.train() if short.opt.has_loop else None
        del short  # in the middle of a sample
        found.add("optimizers dropped in a sample")
    growth = {"memory": looks.growth(1), "objects": looks.growth(2)}
    found.add("seconds", case.amount)
    found.figure("growth of memory in percent, after the warm-up", 100 * (growth["memory"] - 1))
    found.figure("growth of Python objects in percent, after the warm-up", 100 * (growth["objects"] - 1))
    found.figure("megabytes at the end", looks.found[-1][1])
    for name, ratio in growth.items():
        if ratio > FLAT:
            some = looks.found[:: max(1, len(looks.found) // 20)]
            shown = ", ".join(f"{share:.0%} {size:.1f} MB {objects}" for share, size, objects in some)
            raise Failed(f"{name} grew by {100 * (ratio - 1):.2f} %: {shown}")
    return found


KIND = Kind(
    "soak",
    "Training with random exceptions goes on for hours: memory stays flat within 1 %, the weights hold the mean after each.",
    "seconds",
    60,
    3_600,
    {"training": Part(soak, one_case=True, seconds=300)},
    breaks=(
        Break(
            "src/vadam/optim/attach.py",
            "        self._finalizer()\n",
            "        pass\n",
            "training",
            "every attach() leaves its hooks on the model: forward passes become slower and memory grows",
        ),
    ),
)
