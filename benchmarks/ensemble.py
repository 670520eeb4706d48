"""Measure a training step of one small network inside a stack, against loops that train one network at a time.

    python -m benchmarks.ensemble [--repeats 20] [--out benchmarks/results/ensemble.json]

The two settings are those of the paper's UCI experiments: 13-50-1 with minibatches of 32 and 10 samples, and 16-50-1 with 128 and
5. Times are processor time on one thread, medians over rounds in which all contestants take turns, and include the draws of
noise and minibatches. ``authors' loop`` is the published optimizer's procedure written down again: Python over parameters and
samples, one small operation at a time. Then: how the cost grows with members, samples and width, and the peak memory of a
process that trains many members.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import vadam
from benchmarks.timing import commit, machine
from vadam.ensemble import MLP, Member, Method, Settings, Trainer, train
from vadam.ensemble.training import FLOATS_A_CHUNK

TAU, LAM, BETAS = 10.0, 5.0, (0.9, 0.99)
SMALL, LARGE = "13-50-1, M=32, S=10", "16-50-1, M=128, S=5"
SETTINGS = {SMALL: (13, 32, 10), LARGE: (16, 128, 5)}
ROWS = {32: 364, 128: 1151}  # of the smallest sets that the paper trains with minibatches of that size
BARS = {SMALL: 60, LARGE: 20}
STEPS_A_ROUND = 10
CLASS = {"vadam": "Vadam", "vogn": "VOGN", "bbvi": "BBVI"}
Run = Callable[[], None]


def data(D: int, M: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS[M], D, generator=generator)
    return x, x[:, 0] + 0.3 * torch.randn(len(x), generator=generator)


class AuthorsLoop:
    """Fig. 1 as the authors run it: for every sample and every parameter, draw, shift, differentiate, add up, put back."""

    def __init__(self, params: list[nn.Parameter], samples: int, N: int) -> None:
        self.params, self.samples, self.N, self.t = params, samples, N, 0
        self.m = [torch.zeros_like(p) for p in params]
        self.s = [torch.zeros_like(p) for p in params]

    def step(self, closure: Callable[[], Tensor]) -> Tensor:
        N, mean = self.N, [p.data for p in self.params]
        gradient = [torch.zeros_like(p) for p in self.params]
        square = [torch.zeros_like(p) for p in self.params]
        for _ in range(self.samples):
            for i, p in enumerate(self.params):
                noise = torch.normal(torch.zeros_like(p.data), 1.0)
                p.data = torch.addcdiv(mean[i], noise, torch.sqrt(N * self.s[i] + LAM))
            loss = closure()
            for i, p in enumerate(self.params):
                gradient[i] += p.grad
                square[i] += p.grad**2
        for p, mu in zip(self.params, mean, strict=True):
            p.data = mu
        self.t += 1
        gamma1, gamma2 = BETAS
        for i, p in enumerate(self.params):
            gradient[i].div_(self.samples)
            square[i].div_(self.samples)
            self.m[i].mul_(gamma1).add_(gradient[i] + LAM / N * p.data, alpha=1 - gamma1)
            self.s[i].mul_(gamma2).add_(square[i], alpha=1 - gamma2)
            numerator = self.m[i] / (1 - gamma1**self.t)
            denominator = (self.s[i] / (1 - gamma2**self.t)).sqrt() + LAM / N
            p.data.addcdiv_(numerator, denominator, value=-0.01)
        return loss


def authors(params: list[nn.Parameter], S: int, N: int) -> AuthorsLoop:
    return AuthorsLoop(params, S, N)


def ours(params: list[nn.Parameter], S: int, N: int) -> vadam.Vadam:
    return vadam.Vadam(params, lr=0.01, betas=BETAS, num_data=N, prior_precision=LAM, samples=S)


def looped(D: int, M: int, S: int, make: Callable[[list[nn.Parameter], int, int], AuthorsLoop | vadam.Vadam]) -> Run:
    """One network with an optimizer; the function runs a few steps."""
    torch.manual_seed(0)
    x, y = data(D, M)
    model = MLP(D, 50, 1)
    optimizer = make(list(model.parameters()), S, len(x))
    batches = cycle(torch.randperm(len(x)).split(M))

    def run() -> None:
        for _ in range(STEPS_A_ROUND):
            rows = next(batches)
            inputs, targets = x[rows], y[rows]

            def closure(inputs: Tensor = inputs, targets: Tensor = targets) -> Tensor:
                model.zero_grad()
                loss = 0.5 * TAU * (model(inputs).squeeze(-1) - targets).square().mean()
                loss.backward()
                return loss

            optimizer.step(closure)

    return run


def method(name: str, samples: int) -> Method:
    """Return the method of a rule at the learning rate of the paper's experiments."""
    return Method(name, lr=0.01, samples=samples)


def stacked(D: int, M: int, method: Method, E: int, *, width: int = 50, compiled: bool = True) -> Run:
    """E networks as a stack; the function runs a few steps of all of them."""
    x, y = data(D, M)
    members = [Member(x, y, seed=e, prior_precision=LAM, noise_precision=TAU) for e in range(E)]
    settings = Settings(MLP(D, width, 1), method, epochs=10**6, batch_size=M, standardise=False, compiled=compiled)
    trainer = Trainer(members, settings)
    batches = trainer.batches()

    def run() -> None:
        for _ in range(STEPS_A_ROUND):
            trainer.step(next(batches))

    return run


def microseconds(runs: dict[str, tuple[Run, int]], repeats: int) -> dict[str, list[float]]:
    """Per step and network, in rounds: the contestants take turns, so that a busy moment hits them alike."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run, _ in runs.values():
        run()  # compiles
    for _ in range(repeats):
        for name, (run, networks) in runs.items():
            run()  # the caches are still the other's
            start = time.process_time()
            run()
            times[name].append(1e6 * (time.process_time() - start) / STEPS_A_ROUND / networks)
    return times


def against_loops(repeats: int) -> dict[str, dict[str, dict[str, float]]]:
    results: dict[str, dict[str, dict[str, float]]] = {}
    for name, (D, M, S) in SETTINGS.items():
        E = FLOATS_A_CHUNK // (S * M * 50)
        runs = {
            "authors' loop": (looped(D, M, S, authors), 1),
            "vadam.Vadam, looped": (looped(D, M, S, ours), 1),
            f"stack of {E}, not compiled": (stacked(D, M, method("vadam", S), E, compiled=False), E),
            f"stack of {E}": (stacked(D, M, method("vadam", S), E), E),
        }
        times = microseconds(runs, repeats)
        base = times["authors' loop"]
        results[name] = {
            who: {
                "us_per_network_step": round(statistics.median(own), 1),
                "times_faster": round(statistics.median(b / t for t, b in zip(own, base, strict=True)), 2),
            }
            for who, own in times.items()
        }
        print(f"\n{name} (at least {BARS[name]} times)")
        for who, row in results[name].items():
            print(f"  {who:28}{row['us_per_network_step']:>10.1f} µs a step{row['times_faster']:>8.1f} times faster")
    return results


def growth(repeats: int) -> dict[str, dict[str, float]]:
    D, M, S = SETTINGS[SMALL]
    tables: dict[str, dict[str, tuple[Run, int]]] = {
        "members": {str(E): (stacked(D, M, method("vadam", S), E), E) for E in (2, 5, 10, 20, 40, 80)},
        "samples": {str(S): (stacked(D, M, method("vadam", S), 20), 20) for S in (1, 2, 5, 10, 20)},
        "hidden units": {str(H): (stacked(D, M, method("vadam", S), 10, width=H), 10) for H in (25, 50, 100, 200)},
        "method": {CLASS[name]: (stacked(D, M, method(name, S), 20), 20) for name in CLASS},
    }
    results = {}
    for what, runs in tables.items():
        results[what] = {name: round(statistics.median(t), 1) for name, t in microseconds(runs, repeats).items()}
        print(f"\nµs a step and network by {what}: " + ", ".join(f"{k}: {v}" for k, v in results[what].items()))
    return results


def memory() -> dict[str, float]:
    """Peak megabytes of a process that trains that many members, above one that trains none."""
    peaks = {}
    for E in (0, 50, 200, 800):
        command = [sys.executable, "-m", "benchmarks.ensemble", "--peak", str(E)]
        peaks[E] = float(subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()[-1])
    result = {str(E): round(peak - peaks[0], 1) for E, peak in peaks.items() if E}
    print("\npeak MB above an idle process by members: " + ", ".join(f"{k}: {v}" for k, v in result.items()))
    return result


def report_peak(E: int) -> None:
    if E:
        x, y = (value.numpy() for value in data(13, 32))
        rows = np.arange(len(x))
        members = [Member(x, y, train=rows[:300], test=rows[300:], seed=e, noise_precision=TAU) for e in range(E)]
        train(members, MLP(13, 50, 1), method("vadam", 10), epochs=1, keep=False, compiled=False)
    status = Path("/proc/self/status").read_text()
    print(int(status.split("VmHWM:")[1].split()[0]) / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/ensemble.json"))
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.peak is not None:
        report_peak(arguments.peak)
        return
    record = {
        "machine": machine(),
        "commit": commit(),
        "repeats": arguments.repeats,
        "against_loops": against_loops(arguments.repeats),
        "growth_us_per_network_step": growth(arguments.repeats),
        "peak_megabytes": memory(),
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")
    print(f"\nwrote {arguments.out}")


if __name__ == "__main__":
    main()
