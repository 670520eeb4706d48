"""Measure the price of EVON's step and its state against fused Adam, SOAP and IVON, in one run.

    python -m benchmarks.evon [--repeats 8] [--threads 2] [--out benchmarks/results/evon.json]

A round takes ten steps of every method in turn, so that each contains one update of the basis. A time is the median over the
rounds divided by ten, a ratio the median of each round's ratio. "Without updates" never updates the basis. SOAP is
`benchmarks/soap.py`.
"""

import argparse
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import vadam
from benchmarks.memory import state_bytes
from benchmarks.networks import MODELS
from benchmarks.soap import SOAP
from benchmarks.step import N
from benchmarks.timing import ratio, seconds, write
from vadam.rotation import matrix_shape

NEVER = 1_000_000
STEPS = 10
"""Steps of a round: one cycle of the basis."""
MAX_SIDE = 1024
METHODS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "Adam fused": lambda params: torch.optim.Adam(params, fused=True),
    "IVON": lambda params: vadam.IVON(params, num_data=N),
    "SOAP": lambda params: SOAP(params, every=STEPS, max_side=MAX_SIDE),
    "SOAP, without updates": lambda params: SOAP(params, every=NEVER, max_side=MAX_SIDE),
    "EVON": lambda params: vadam.EVON(params, num_data=N, basis_every=STEPS, max_side=MAX_SIDE),
    "EVON, without updates": lambda params: vadam.EVON(params, num_data=N, basis_every=NEVER, max_side=MAX_SIDE),
}


def training(network: str, method: str) -> tuple[Callable[[], None], torch.optim.Optimizer]:
    """Return ten steps of training, and the optimizer."""
    torch.manual_seed(0)
    model, x = MODELS[network]()
    y = torch.randint(0, 10, (len(x),))
    optimizer = METHODS[method](model.parameters())
    if isinstance(optimizer, vadam.VariationalOptimizer):
        optimizer.attach(model)

    def steps() -> None:
        for _ in range(STEPS):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

    return steps, optimizer


def vectors(optimizer: torch.optim.Optimizer) -> float:
    """Return the bytes of the state in vectors of float32 per weight."""
    weights = sum(p.numel() for group in optimizer.param_groups for p in group["params"])
    return state_bytes(optimizer) / (4 * weights)


def expected_vectors(optimizer: torch.optim.Optimizer) -> float:
    """Return 2 + 2 (n² + m²)/(nm) vectors, averaged over the weights; a side without a basis counts nothing."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    matrices = 0
    for p in params:
        sides = [n for n in matrix_shape(p.shape) if p.dim() > 1 and 1 < n <= MAX_SIDE]
        matrices += 2 * sum(n * n for n in sides)
    return 2 + matrices / sum(p.numel() for p in params)


def measure(network: str, repeats: int) -> dict[str, dict[str, float]]:
    made = {method: training(network, method) for method in METHODS}
    times = seconds({method: steps for method, (steps, _) in made.items()}, repeats)
    found = {}
    for method, (_, optimizer) in made.items():
        found[method] = {
            "ms": round(1000 * statistics.median(times[method]) / STEPS, 3),
            "ratio": round(ratio(times[method], times["Adam fused"]), 3),
            "vectors": round(vectors(optimizer), 3),
        }
        if method == "EVON":
            found[method]["expected_vectors"] = round(expected_vectors(optimizer), 3)
        print(f"  {network:12} {method:24} {found[method]}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/evon.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    results = {network: measure(network, arguments.repeats) for network in MODELS}
    write(arguments.out, results, threads=arguments.threads, repeats=arguments.repeats)


if __name__ == "__main__":
    main()
