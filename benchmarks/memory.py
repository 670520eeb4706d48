"""Measure the memory of an optimizer per weight, between steps and during a sample, beside Adam and peers.

    python -m benchmarks.memory [--out benchmarks/results/memory.json]

Vectors per weight, of float32. "Kept" is counted: the bytes of all tensors in the optimizer's state (and of a model that doubles its
weights, as stochastic layers do). "Peak" is measured: the high-water mark of a process that takes a few steps on 5 million weights in
five tensors, above that of a process that does the same with hardly any weights, without the weights and their gradients.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.step import FAMILY
from benchmarks.timing import write
from vadam_paper.experiments.cost.stochastic_layers import StochasticLinear

WIDTH, TENSORS = 1000, 5
WEIGHTS = TENSORS * WIDTH**2
METHODS = ["Adam fused", "Adam foreach", "stochastic layers", "ivon-opt"]
METHODS += [f"{name}{flags}" for name in ("Vadam", "Vprop", "VadaGrad", "BBVI", "IVON") for flags in ("", ", plain")]
METHODS += ["Vadam, no stored mean"]
SAMPLED = {"Vadam": 2, "Vprop": 1, "VadaGrad": 1}  # the bars: vectors between steps


def kept_and_step(method: str, width: int) -> int:
    """Take a few steps and return the bytes that are kept between them."""
    params: list[Any] = [nn.Parameter(torch.zeros(width, width)) for _ in range(TENSORS)]
    if method == "stochastic layers":
        layers = [StochasticLinear(nn.Linear(width, width)) for _ in range(TENSORS)]
        params = [p for layer in layers for p in (layer.mu[0], layer.rho[0])]
    for p in params:
        p.grad = torch.ones_like(p)
    if method == "stochastic layers":
        adam = torch.optim.Adam(params, fused=True)
        for _ in range(2):
            adam.zero_grad()
            for layer in layers:  # weights that are drawn, differentiated through, and dropped
                layer(torch.ones(1, width)).sum().backward()
            adam.step()
        return state_bytes(adam) + sum(p.nbytes for p in params) // 2
    if method.startswith("Adam"):
        adam = torch.optim.Adam(params, **{method.split()[1]: True})
        for _ in range(2):
            adam.step()
        return state_bytes(adam)
    if method == "ivon-opt":
        import ivon

        peer = ivon.IVON(params, lr=0.1, ess=100)
        for _ in range(2):
            with peer.sampled_params(train=True):
                pass
            peer.step()
        return sum(v.nbytes for group in peer.param_groups for v in group.values() if isinstance(v, torch.Tensor))
    family, *flags = method.split(", ")
    backend = "plain" if "plain" in flags else "auto"
    opt = FAMILY[family](params, backend=backend, store_mean="no stored mean" not in flags)
    for _ in range(2):
        with opt.sampled_params():
            params[-1].grad.mul_(1.0)  # a gradient was taken
        opt.step()
    return state_bytes(opt)


def state_bytes(opt: torch.optim.Optimizer) -> int:
    return sum(v.nbytes for state in opt.state.values() for v in state.values() if isinstance(v, torch.Tensor))


def measured(method: str, width: int) -> tuple[float, float]:
    """Vectors per weight that are kept, and the process's high-water mark."""
    command = [sys.executable, "-m", "benchmarks.memory", "--one", method, str(width)]
    environment = os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_MMAP_THRESHOLD_": "65536"}
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
    return float(out[-2]), float(out[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/memory.json"))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        kept = kept_and_step(arguments.one[0], int(arguments.one[1]))
        status = Path("/proc/self/status").read_text()
        print(kept / (4 * WEIGHTS), int(status.split("VmHWM:")[1].split()[0]) * 1024 / (4 * WEIGHTS))
        return
    results: dict[str, dict[str, float]] = {}
    print(f"  {'vectors per weight':34} {'kept':>6} {'peak':>6}")
    for method in METHODS:
        kept, most = measured(method, WIDTH)
        peak = most - measured(method, 10)[1] - 2
        results[method] = {"kept": round(kept, 3), "peak": round(peak, 2)}
        bar = f"   bar {SAMPLED[method]}" if method in SAMPLED else ""
        print(f"  {method:34} {kept:6.2f} {peak:6.2f}{bar}", flush=True)
    write(arguments.out, results, weights=WEIGHTS)


if __name__ == "__main__":
    main()
