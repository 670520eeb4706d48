"""A step that is interrupted at random moments, once or twice, is taken entirely or not at all; the mean is restored.

Arguments: backend, seconds for each way of use. Prints a line for each way.
"""

import random
import signal
import sys
import time

import torch
from torch import Tensor, nn

import vadam
from vadam import interrupts

SIZES = (20_000, 30, 3_000)
STEPS = 30
BACKEND, SECONDS = sys.argv[1], float(sys.argv[2])

signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background ignores it
delays: list[float] = []  # until the next signal
coming = 0


def arm() -> None:
    if delays:
        signal.setitimer(signal.ITIMER_REAL, delays.pop(0))


def strike(*_: object) -> None:
    """Send SIGINT, and set the alarm for the next."""
    global coming
    coming -= 1
    arm()
    signal.raise_signal(signal.SIGINT)


def wait() -> None:
    while coming:
        pass


signal.signal(signal.SIGALRM, strike)
interrupts.SIGNALS = (signal.SIGINT,)  # the alarm, which sends it, does not wait


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList([torch.ones(size) for size in SIZES])

    def forward(self) -> Tensor:
        return sum(w.sum() for w in self.weights)  # type: ignore[return-value]


def make(way: str) -> tuple[Model, vadam.Vadam]:
    model = Model()
    samples = 2 if way == "samples" else 1
    opt = vadam.Vadam(model.parameters(), lr=0.01, num_data=9, samples=samples, nonfinite="skip", backend=BACKEND)
    return model, opt.attach(model) if way == "attach" else opt


def step(way: str, model: Model, opt: vadam.Vadam, *, bad: bool) -> None:
    """Take a step whose gradient does not depend on the sample: 1, or inf where it is to be skipped."""

    def closure() -> Tensor:
        opt.zero_grad()
        loss = model() * (float("inf") if bad else 1.0)
        loss.backward()
        return loss

    if way in ("closure", "samples"):
        opt.step(closure)
    elif way == "context":
        opt.zero_grad()
        with opt.sampled_params():
            model().mul(float("inf") if bad else 1.0).backward()
        opt.step()
    else:
        closure()
        opt.step()


def heal(opt: vadam.Vadam, k: int) -> None:
    """Make one call that a training loop may make next."""
    (opt.eval, opt.zero_grad, opt.state_dict, opt.eval)[k % 4]()
    opt.eval()  # the sample of a loop lasts until step() or eval()


def snapshot(model: Model, opt: vadam.Vadam) -> list[Tensor]:
    values: list[Tensor] = []
    for p in model.parameters():
        values += [p.detach().clone(), *(torch.as_tensor(opt.state[p][name]).clone() for name in ("m", "s", "s0"))]
    return values


def main(way: str) -> None:
    global coming
    random.seed(0)
    model, opt = make(way)
    known: list[list[Tensor]] = []  # mean and state after each step
    duration = 5e-3
    for _ in range(STEPS + 3):
        began = time.perf_counter()
        step(way, model, opt, bad=False)
        duration = min(duration, time.perf_counter() - began)
        known.append(snapshot(model, opt))
    end, moment, interrupted = time.monotonic() + SECONDS, 0, 0
    while time.monotonic() < end:
        model, opt = make(way)
        step(way, model, opt, bad=False)
        k = 0
        while k < STEPS and time.monotonic() < end:
            moment += 1
            bad = moment % 3 == 0
            coming = 1 + moment % 2
            delays[:] = [random.uniform(1e-6, 1.3 * duration), *[random.uniform(1e-6, 0.5 * duration)] * (moment % 2)]
            try:
                try:
                    arm()
                    step(way, model, opt, bad=bad)
                    wait()
                except KeyboardInterrupt:
                    interrupted += 1
                    wait()
            except KeyboardInterrupt:
                pass
            heal(opt, moment)
            now = snapshot(model, opt)
            old, new = (all(map(torch.equal, now, then)) for then in (known[k], known[k + 1]))
            assert old or (new and not bad), f"{way} {BACKEND}, {moment}: {describe(now, known[k], known[k + 1])}"
            step(way, model, opt, bad=bad)  # training goes on
            k += new + (not bad)
            assert all(map(torch.equal, snapshot(model, opt), known[k]))
    assert interrupted > 0.7 * moment, (interrupted, moment)
    print("ok", way, moment, interrupted, flush=True)


def describe(now: list[Tensor], before: list[Tensor], after: list[Tensor]) -> str:
    names = [f"{name} of {size}" for size in SIZES for name in ("mean", "m", "s", "s0")]
    rows = zip(names, now, before, after, strict=True)
    return ", ".join(
        f"{n}: {'old' if torch.equal(x, a) else 'new' if torch.equal(x, b) else 'neither'}" for n, x, a, b in rows
    )


if __name__ == "__main__":
    for way in ("closure", "samples", "context", "attach"):
        main(way)
