"""Signals: a step that is interrupted once or twice at a random moment is taken entirely or not at all; the mean is restored.

Two equal networks are trained in lock step. One is interrupted by real SIGINTs, the other is not. After every interruption mean and
state must be those before the step or those after it, and the next step must lead to the bits of the undisturbed twin.
"""

from __future__ import annotations

import copy
import gc
import random
import signal
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from specs import SPECS, Spec, same
from torture.case import Break, Case, Failed, Kind, Outcome, Part
from vadam import interrupts

WIDTH = 400
PATHS = ("normal", "normal", "raising", "skipping", "reading", "loading")
MOMENTS = 40


class Raised(Exception):
    """The error of a closure."""


class Alarm:
    """Sends SIGINT to this process after random delays, by the timer of the operating system."""

    def __init__(self) -> None:
        self.delays: list[float] = []
        self.coming = 0
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGALRM, self._strike)
        interrupts.SIGNALS = (signal.SIGINT,)  # the alarm, which sends it, does not wait

    def set(self, delays: list[float]) -> None:
        self.coming, self.delays = len(delays), delays
        self._arm()

    def _arm(self) -> None:
        if self.delays:
            signal.setitimer(signal.ITIMER_REAL, max(1e-6, self.delays.pop(0)))

    def _strike(self, *_: object) -> None:
        self.coming -= 1
        self._arm()
        signal.raise_signal(signal.SIGINT)


class Training:
    """A network, its optimizer, and one way of use."""

    def __init__(self, spec: Spec, way: str, options: dict[str, Any], seed: int, width: int = WIDTH) -> None:
        self.spec, self.way = spec, way
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            width = width if spec.mean_field else min(width, 12)
            self.model = nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 1))
            self.x, self.y = torch.randn(8, 3), torch.randn(8, 1)
        generator = torch.Generator().manual_seed(seed)
        self.opt = spec.make(self.model.parameters(), generator=generator, nonfinite="skip", **options)
        if spec.needs_attach or way == "attach":
            self.opt.attach(self.model)
        self.act: Callable[[str], None] = lambda moment: None  # may raise
        self.factor = 1.0

    def loss(self) -> Tensor:
        self.act("forward")
        loss = (self.model(self.x) - self.y).square().mean() * self.factor
        if self.spec.backward:
            loss.backward()
        self.act("backward")
        return loss

    def step(self) -> None:
        opt = self.opt

        def closure() -> Tensor:
            opt.zero_grad()
            return self.loss()

        if self.way == "closure":
            opt.step(closure)
            return
        opt.zero_grad()
        for _ in range(opt.samples):
            if self.way == "context":
                with opt.sampled_params():
                    self.loss()
            else:
                self.loss()
        opt.step()

    def everything(self) -> list[Tensor]:
        params = [p for group in self.opt.param_groups for p in group["params"]]
        state = [torch.as_tensor(self.opt.state[p][k]) for p in params for k in sorted(self.opt.state[p])]
        return [x.detach().clone() for x in (*params, *state)]


def choose(random: random.Random, backend: str) -> tuple[Spec, str, dict[str, Any]]:
    """Return an optimizer, a way of use and options."""
    spec = random.choice(SPECS)
    way = random.choice(spec.ways)
    options: dict[str, Any] = {"backend": backend, "samples": random.choice((1, 1, 2))}
    if random.random() < 0.25 and spec.elementwise:  # EVON's axes follow from rounding where they do not matter
        options["store_mean"] = False
    if random.random() < 0.25:
        options |= {"antithetic": True, "samples": 2}
    return spec, way, options


def interrupted(case: Case, backend: str) -> Outcome:
    random, found, alarm = case.random, Outcome(), Alarm()
    spec, way, options = choose(random, backend)
    seed = random.randrange(2**31)
    victim, twin = (Training(spec, way, options, seed) for _ in range(2))
    said = f"{spec} {way} {options}"
    exact = options.get("store_mean", True)
    durations = []
    for _ in range(6):
        began = time.perf_counter()
        victim.step()
        durations.append(time.perf_counter() - began)
        twin.step()
    duration = sorted(durations)[2]
    gc.collect()
    for moment in range(MOMENTS):
        path = random.choice(PATHS)
        before, noise = victim.everything(), victim.opt.generator.get_state()
        signals = random.choice((1, 1, 2))
        delays = [random.uniform(0, 1.3 * duration), *[random.uniform(0, 0.6 * duration)] * (signals - 1)]
        act = _action(victim, path, random)
        hit = False
        try:  # three levels for two signals: each may come in the handler of the one before
            try:
                try:
                    alarm.set(delays)
                    act()
                except Raised:
                    pass
                while alarm.coming:
                    pass
            except KeyboardInterrupt:
                hit = True
                while alarm.coming:
                    pass
        except KeyboardInterrupt:
            hit = True
        victim.act, victim.factor = (lambda _: None), 1.0
        found.add("signals", signals)
        found.add("interruptions", hit)
        found.add(f"{path}, {'two signals' if signals == 2 else 'one signal'}")
        twin.step()
        _heal(victim, random)
        now, new = victim.everything(), twin.everything()
        where = f"{said}, {path}, moment {moment}, {signals} signals"
        if not torch.is_grad_enabled() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            raise Failed(f"{where}: autograd or the handler of SIGINT was left changed")
        if victim.opt.holds_sample:
            raise Failed(f"{where}: the weights still hold a sample")
        taken = path == "normal" and _close(now, new, exact)
        if not taken:
            if not _close(now, before, exact):
                raise Failed(f"{where}: neither before the step nor after it: {_describe(now, before, new)}")
            victim.opt.generator.set_state(noise)
            victim.step()  # training goes on
            if not _close(victim.everything(), new, exact):
                raise Failed(f"{where}: the next step differs from an undisturbed one")
        if not exact:
            _synchronise(victim, twin)
    return found


def _action(victim: Training, path: str, random: random.Random) -> Callable[[], object]:
    """Return the call that is to be interrupted."""
    if path == "raising":
        chosen, left = random.choice(("forward", "backward")), random.randrange(victim.opt.samples)

        def act(moment: str) -> None:
            nonlocal left
            if moment == chosen:
                left -= 1
                if left < 0:
                    raise Raised

        victim.act = act
    if path == "skipping":
        victim.factor = float("inf")
    if path == "reading":
        return random.choice((victim.opt.state_dict, victim.opt.posterior, victim.opt.eval, victim.everything))
    if path == "loading":
        saved = victim.opt.state_dict()
        return lambda: victim.opt.load_state_dict(saved)
    return victim.step


def _heal(victim: Training, random: random.Random) -> None:
    """Make one call that a training loop may make next; the sample of a loop lasts until step() or eval()."""
    random.choice((victim.opt.eval, victim.opt.zero_grad, victim.opt.state_dict, victim.opt.posterior))()
    victim.opt.eval()


def _close(a: list[Tensor], b: list[Tensor], exact: bool) -> bool:
    """Compare bit for bit; without a stored mean up to the rounding of adding and subtracting noise."""
    if exact:
        return same(a, b)
    return len(a) == len(b) and all(torch.allclose(x, y, rtol=1e-3, atol=2e-5) for x, y in zip(a, b, strict=True))


def _synchronise(victim: Training, twin: Training) -> None:
    """Give the twin the victim's weights, whose rounding errors differ where the mean is not stored."""
    with torch.no_grad():
        for ours, theirs in zip(twin.model.parameters(), victim.model.parameters(), strict=True):
            ours.copy_(theirs)
    twin.opt.load_state_dict(copy.deepcopy(victim.opt.state_dict()))


def _describe(now: list[Tensor], before: list[Tensor], after: list[Tensor]) -> str:
    kinds = (
        "old" if torch.equal(x, a) else "new" if torch.equal(x, b) else "neither"
        for x, a, b in zip(now, before, after, strict=True)
    )
    return " ".join(kinds)


KIND = Kind(
    "signals",
    "A step that Ctrl-C interrupts once or twice is taken or not, never in part; then the model holds the mean and training goes on.",
    "signals",
    800,
    3_000,
    {
        backend: Part(lambda case, backend=backend: interrupted(case, backend), cases_per_process=5)
        for backend in ("native", "plain")
    },
    breaks=(
        Break(
            "src/vadam/interrupts.py",
            "        self._install()\n",
            "        pass\n",
            "plain",
            "Ctrl-C in the middle of an update leaves some weights updated and others not",
        ),
    ),
)
