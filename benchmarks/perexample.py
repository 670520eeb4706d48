"""Measure mean_i (∇f_i)²: this engine against a plain backward pass, torch.func, Opacus and BackPACK, in one run.

    python -m benchmarks.perexample [--repeats 20] [--threads 2] [--out benchmarks/results/perexample.json]

All methods take turns; each leaves the gradient of the mean loss too, which a step needs as well. Times are medians
over the rounds, ratios medians of each round's ratio. Each method's squares are first compared with ours. Memory is the
peak of a process of its own, above that of a process that only runs plain backward passes. Peers that are not installed
are left out: pip install opacus; pip install --no-deps backpack-for-pytorch unfoldNd einops.
"""

import argparse
import os
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.networks import MODELS
from benchmarks.timing import ratio, seconds, write
from vadam.curvature import PerExampleSquares
from vadam.optim.vogn import VOGN

Step = Callable[[], dict[str, Tensor] | None]


def plain(model: nn.Module, x: Tensor, y: Tensor) -> Step:
    def step() -> None:
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()

    return step


def ours(model: nn.Module, x: Tensor, y: Tensor) -> Step:
    engine, backward = PerExampleSquares(model), plain(model, x, y)
    names = {p: name for name, p in model.named_parameters()}

    def step() -> dict[str, Tensor]:
        backward()
        return {names[p]: h for p, h in engine.take().items()}

    return step


def torch_func(model: nn.Module, x: Tensor, y: Tensor) -> Step:
    params = {name: p.detach() for name, p in model.named_parameters()}

    def loss(params: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(model, params, x.unsqueeze(0)), y.unsqueeze(0))

    per_example = vmap(grad(loss), in_dims=(None, 0, 0))

    def step() -> dict[str, Tensor]:
        with sdpa_kernel(SDPBackend.MATH):
            gradients = per_example(params, x, y)
        for name, p in model.named_parameters():
            p.grad = gradients[name].mean(0)
        return {name: g.square_().mean(0) for name, g in gradients.items()}

    return step


def opacus(model: nn.Module, x: Tensor, y: Tensor) -> Step:
    from opacus import GradSampleModule

    wrapped = GradSampleModule(model)

    def step() -> dict[str, Tensor]:
        wrapped.zero_grad()
        F.cross_entropy(wrapped(x), y).backward()
        return {name: p.grad_sample.square().mean(0) for name, p in model.named_parameters()}

    return step


def backpack(model: nn.Module, x: Tensor, y: Tensor) -> Step:
    from backpack import backpack, extend
    from backpack.extensions import SumGradSquared

    model, loss = extend(model), extend(nn.CrossEntropyLoss())

    def step() -> dict[str, Tensor]:
        model.zero_grad()
        with backpack(SumGradSquared()):
            loss(model(x), y).backward()
        missing = [name for name, p in model.named_parameters() if not hasattr(p, "sum_grad_squared")]
        if missing:
            raise NotImplementedError(f"nothing for {missing[0]} and {len(missing) - 1} other parameters")
        return {name: len(x) * p.sum_grad_squared for name, p in model.named_parameters()}

    return step


METHODS = {"plain backward": plain, "vadam": ours, "torch.func": torch_func, "opacus": opacus, "backpack": backpack}


def adam_step(model: nn.Module, x: Tensor, y: Tensor) -> Step:
    optimizer, backward = torch.optim.Adam(model.parameters(), fused=True), plain(model, x, y)

    def step() -> None:
        backward()
        optimizer.step()

    return step


def vogn_step(model: nn.Module, x: Tensor, y: Tensor) -> Step:
    optimizer, backward = VOGN(model.parameters(), num_data=60_000), plain(model, x, y)
    optimizer.attach(model)

    def step() -> None:
        backward()
        optimizer.step()

    return step


STEPS = {"Adam step": adam_step, "VOGN step": vogn_step}


def prepared(model_name: str, method_name: str) -> Step:
    torch.manual_seed(0)
    model, x = MODELS[model_name]()
    y = torch.randint(0, 10, (len(x),))
    return (METHODS | STEPS)[method_name](model, x, y)


def usable(model_name: str) -> dict[str, Step]:
    """Return the methods that support this model and agree with us; print a reason for each of the others."""
    steps: dict[str, Step] = {}
    for name in METHODS:
        try:
            steps[name] = prepared(model_name, name)
            squares = steps[name]()
        except (ImportError, NotImplementedError) as reason:
            steps.pop(name, None)
            print(f"  {model_name}: no {name} ({type(reason).__name__}: {str(reason).splitlines()[0]})")
            continue
        if name == "vadam":
            expected = squares
        elif squares is not None:
            for key, h in expected.items():  # type: ignore[union-attr]
                torch.testing.assert_close(squares[key], h, rtol=1e-3, atol=1e-4 * h.max().item())
    return steps


def peak_megabytes(model_name: str, method_name: str) -> float:
    """Return the peak memory of a process that does nothing else."""
    command = [sys.executable, "-m", "benchmarks.perexample", "--peak", model_name, method_name]
    environment = os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_MMAP_THRESHOLD_": "65536"}
    return float(
        subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout.split()[-1]
    )


def report_peak(model_name: str, method_name: str) -> None:
    step = prepared(model_name, method_name)
    for _ in range(4):
        step()
    status = Path("/proc/self/status").read_text()  # getrusage would count the parent's memory
    print(int(status.split("VmHWM:")[1].split()[0]) / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/perexample.json"))
    parser.add_argument("--peak", nargs=2, metavar=("MODEL", "METHOD"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*backward hook")  # Opacus, about its own
    warnings.filterwarnings("ignore", message="Extension saving to sum_grad_squared")  # BackPACK; reported in the table
    torch.set_num_threads(arguments.threads)
    torch.empty(2**22)  # having freed 16 MB once, glibc reuses such blocks; a training process gets there by itself
    if arguments.peak:
        report_peak(*arguments.peak)
        return

    results: dict[str, dict[str, dict[str, float]]] = {}
    for model_name, make in MODELS.items():
        print(f"\n{model_name}: {make.__doc__}")
        steps = usable(model_name) | {name: prepared(model_name, name) for name in STEPS}
        seconds(steps, 1)
        times = seconds(steps, arguments.repeats)
        peaks = {name: peak_megabytes(model_name, name) for name in steps}
        results[model_name] = {}
        print(f"  {'':16} {'ms':>8} {'ratio':>6} {'extra MB':>9}")
        for name in steps:
            base = "Adam step" if name in STEPS else "plain backward"
            row = {
                "ms": 1000 * statistics.median(times[name]),
                "ratio": ratio(times[name], times[base]),
                "extra_megabytes": peaks[name] - peaks[base],
            }
            results[model_name][name] = {key: round(value, 3) for key, value in row.items()}
            print(f"  {name:16} {row['ms']:8.2f} {row['ratio']:6.2f} {row['extra_megabytes']:9.1f}")

    write(arguments.out, results, threads=arguments.threads, repeats=arguments.repeats)


if __name__ == "__main__":
    main()
