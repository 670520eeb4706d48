"""Measure a training step, and the optimizer's own part of it, against Adam and peers, in one run.

    python -m benchmarks.step [--repeats 10] [--threads 2] [--only networks work plain growth profile] [--out benchmarks/results/step.json]

Methods take turns; a time is the median over the rounds, a ratio the median of each round's ratio to fused Adam. Training steps are
measured in three processes, and the median of the three counts.
The work alone is what there is besides forward and backward: drawing weights, restoring the mean, updating, on the tensors of a
ResNet-18. Peers that are not installed are left out: pip install ivon-opt posteriors.
"""

import argparse
import cProfile
import json
import os
import pstats
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import vadam
from benchmarks.networks import TRAINED, resnet18_shapes
from benchmarks.timing import exponent, ratio, seconds, write
from vadam_paper.experiments.cost.stochastic_layers import stochastic

N = 50_000
BARS = dict.fromkeys(TRAINED, 1.1) | {"mlp": 1.3, "cnn": 1.05, "transformer": 1.05}
CLIP = {"lstm": 5.0}
"""Largest absolute value in a gradient, where the experiment clips."""
PROCESSES, NETWORK_PROCESSES = 7, 3
Step = Callable[[], object]
FAMILY: dict[str, Callable[..., vadam.VariationalOptimizer]] = {
    "Vadam": partial(vadam.Vadam, num_data=N, init_precision=N),
    "Vprop": partial(vadam.Vprop, num_data=N, init_precision=N),
    "VadaGrad": partial(vadam.VadaGrad, init_precision=1e4),
    "BBVI": partial(vadam.BBVI, num_data=N, init_precision=N),
    "IVON": partial(vadam.IVON, num_data=N),
    "VOGN": partial(vadam.VOGN, num_data=N, init_precision=N),
}


class AuthorsVadam(torch.optim.Optimizer):
    """Fig. 1 as a loop over tensors: draw, shift, differentiate, put back, update; the samples by new tensors."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {})
        for p in self.param_groups[0]["params"]:
            self.state[p] = {"m": torch.zeros_like(p), "s": torch.zeros_like(p), "t": 0}

    @torch.no_grad()
    def step(self, closure: Callable[[], object]) -> None:
        params = self.param_groups[0]["params"]
        means = [p.data for p in params]
        for p, mu in zip(params, means, strict=True):
            p.data = torch.normal(mu, (N * self.state[p]["s"] + 1.0).rsqrt())
        with torch.enable_grad():
            closure()
        for p, mu in zip(params, means, strict=True):
            p.data = mu
            state = self.state[p]
            state["t"] += 1
            state["m"].mul_(0.9).add_(p.grad + 1.0 / N * mu, alpha=0.1)
            state["s"].mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
            numerator = state["m"] / (1 - 0.9 ** state["t"])
            denominator = (state["s"] / (1 - 0.999 ** state["t"])).sqrt() + 1.0 / N
            p.data.addcdiv_(numerator, denominator, value=-1e-3)


# One training step on a network --------------------------------------------------------------------------------------


def training(name: str, method: str) -> Step:
    torch.manual_seed(0)
    model, x = TRAINED[name]()
    with torch.no_grad():
        batch, _, *positions = model(x).shape
    y = torch.randint(0, 10, (batch, *positions))

    def backward() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        if name in CLIP:
            nn.utils.clip_grad_value_(model.parameters(), CLIP[name])
        return loss

    if method.startswith("Adam"):
        optimizer: Any = torch.optim.Adam(model.parameters(), **{method.split()[1]: True})
        return lambda: (backward(), optimizer.step())
    if method == "BBVI, stochastic layers":
        if name != "mlp":
            raise NotImplementedError("stochastic layers are written for the MLP")
        assert isinstance(model, nn.Sequential)
        model = stochastic(model)
        optimizer = torch.optim.Adam(model.parameters(), fused=True)
        return lambda: (backward(), optimizer.step())
    if method == "ivon-opt":
        import ivon

        optimizer = ivon.IVON(model.parameters(), lr=0.1, ess=N)

        def step() -> None:
            with optimizer.sampled_params(train=True):
                backward()
            optimizer.step()

        return step
    if method == "authors' Vadam":
        optimizer = AuthorsVadam(model.parameters())
        return lambda: optimizer.step(backward)
    family, _, backend = method.partition(", ")
    optimizer = FAMILY[family](groups(model), backend=backend or "auto").attach(model)
    return lambda: (backward(), optimizer.step())


def groups(model: nn.Module) -> Any:
    """Batch norms are not sampled: they mix the examples."""
    norms = {p for module in model.modules() if isinstance(module, nn.BatchNorm2d) for p in module.parameters()}
    sampled = [p for p in model.parameters() if p not in norms]
    return [{"params": sampled}, {"params": list(norms), "deterministic": True}] if norms else sampled


NETWORK_METHODS = [
    "Adam fused",
    "Adam foreach",
    "Vadam",
    "Vadam, plain",
    "Vprop",
    "IVON",
    "VOGN",
    "ivon-opt",
    "authors' Vadam",
    "BBVI, stochastic layers",
]


# The optimizer's own work -------------------------------------------------------------------------------------------


def weights(shapes: list[tuple[int, ...]]) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    params = [nn.Parameter(0.05 * torch.randn(shape, generator=generator)) for shape in shapes]
    for p in params:
        p.grad = 1e-3 * torch.randn(p.shape, generator=generator)
    return params


def work(method: str, shapes: list[tuple[int, ...]], **options: Any) -> Step:
    """Draw, restore and update with gradients that are already there."""
    params = weights(shapes)
    if method.startswith("Adam"):
        return torch.optim.Adam(params, **{method.split()[1]: True}).step
    if method == "ivon-opt":
        import ivon

        peer: Any = ivon.IVON(params, lr=0.1, ess=N)

        def step() -> None:
            with peer.sampled_params(train=True):
                pass
            peer.step()

        return step
    if method == "authors' Vadam":
        return partial(AuthorsVadam(params).step, lambda: None)
    if method == "posteriors vi.diag":
        return posteriors_step(params)
    family, *flags = method.split(", ")
    extra = {"backend": "plain" if "plain" in flags else "auto", "store_mean": "no stored mean" not in flags}
    optimizer = FAMILY[family](params, **extra, **options)
    grads = [p.grad for p in params]

    def gradients(of: list[Tensor | None]) -> None:
        for p, g in zip(params, of, strict=True):
            p.grad = g

    def ours() -> None:
        gradients([None] * len(params))
        if optimizer.samples == 1:
            optimizer.train()
            gradients(grads)
        for _ in range(optimizer.samples if optimizer.samples > 1 else 0):
            with optimizer.sampled_params():
                gradients(grads)
        optimizer.step()

    return ours


def posteriors_step(params: list[nn.Parameter]) -> Step:
    import posteriors
    import torchopt

    tree = {str(i): p.detach() for i, p in enumerate(params)}
    grads = {str(i): p.grad for i, p in enumerate(params)}

    def log_posterior(weights: dict[str, Tensor], batch: object) -> tuple[Tensor, Tensor]:
        return sum((weights[k] * grads[k]).sum() for k in weights), torch.empty(0)  # a loss whose gradient is given

    transform = posteriors.vi.diag.build(log_posterior, torchopt.adam(lr=1e-3), n_samples=1)
    state = [transform.init(tree)]

    def step() -> None:
        state[0], _ = transform.update(state[0], None)

    return step


WORK_METHODS = [
    "Adam fused",
    "Adam foreach",
    "Vadam",
    "Vadam, plain",
    "Vadam, no stored mean",
    "Vprop",
    "VadaGrad",
    "BBVI",
    "IVON",
    "ivon-opt",
    "authors' Vadam",
    "posteriors vi.diag",
]


# Tables --------------------------------------------------------------------------------------------------------------


def usable(make: Callable[[str], Step], methods: list[str]) -> dict[str, Step]:
    steps: dict[str, Step] = {}
    for name in methods:
        try:
            steps[name] = make(name)
            steps[name]()
        except (ImportError, NotImplementedError) as reason:
            steps.pop(name, None)
            print(f"  no {name}: {reason}")
    return steps


Rows = dict[str, dict[str, float]]


def measured(steps: dict[str, Step], repeats: int) -> Rows:
    seconds(steps, 2)
    times = seconds(steps, repeats)
    return {
        name: {
            "ms": round(1000 * statistics.median(found), 3),
            "ratio": round(ratio(found, times["Adam fused"]), 3),
        }
        for name, found in times.items()
    }


def show(rows: Rows) -> None:
    print(f"  {'':34} {'ms':>9} {'x fused Adam':>12}")
    for name, row in rows.items():
        print(f"  {name:34} {row['ms']:9.2f} {row['ratio']:12.2f}", flush=True)


def networks(repeats: int) -> dict[str, Any]:
    """Measure each network in new processes: where its tensors lie in memory differs between processes."""
    results = {}
    for name, make in TRAINED.items():
        print(f"\na training step, {name}: {make.__doc__}")
        runs = [in_new_process(_network, name, repeats, torch.get_num_threads()) for _ in range(NETWORK_PROCESSES)]
        results[name] = {
            method: {key: statistics.median(run[method][key] for run in runs) for key in ("ms", "ratio")}
            for method in runs[0]
        }
        show(results[name])
        shown = ", ".join(f"{run['Vadam']['ratio']:.2f}" for run in runs)
        print(f"  bar for Vadam: {BARS[name]} x; in single processes {shown}")
    return results


def _network(name: str, repeats: int, threads: int) -> Rows:
    torch.set_num_threads(threads)
    return measured(usable(partial(training, name), NETWORK_METHODS), repeats)


def in_new_process(function: Callable[..., Any], *arguments: Any) -> Any:
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(function, *arguments).result()


def alone(repeats: int) -> dict[str, Any]:
    shapes = resnet18_shapes()
    print(
        f"\nthe optimizer's work alone: {sum(torch.Size(s).numel() for s in shapes)} weights in {len(shapes)} tensors"
    )
    rows = measured(usable(lambda name: work(name, shapes), WORK_METHODS), repeats)
    show(rows)
    best = rows["Vadam"]["ms"]
    if "ivon-opt" in rows:
        print(f"  Vadam against ivon-opt: {rows['ivon-opt']['ms'] / best:.1f} x faster (bar 25)")
    print(f"  Vadam against fused Adam: {rows['Vadam']['ratio']:.2f} x (bar 4)")
    return rows


def growth(repeats: int) -> dict[str, Any]:
    """Measure how the work grows: with weights, tensors, samples and threads."""
    results: dict[str, Any] = {}
    methods = ["Adam fused", "Vadam", "Vadam, plain"]
    axes: dict[str, dict[int, Callable[[str], Step]]] = {
        "weights": {n: partial(work, shapes=[(n,)]) for n in (10**3, 10**4, 10**5, 10**6, 10**7, 10**8)},
        "tensors": {n: partial(work, shapes=[(10_000,)] * n) for n in (10, 30, 100, 300, 1000)},
        "samples": {S: partial(work, shapes=resnet18_shapes(), samples=S) for S in (1, 4, 16, 64)},
    }
    for axis, points in axes.items():
        print(f"\ngrowth with {axis}, ms")
        print("  " + " " * 18 + "".join(f"{n:>12}" for n in points) + "    exponent")
        results[axis] = {}
        for method in methods:
            if axis == "samples" and method.startswith("Adam"):
                continue
            times = {}
            for n, make in points.items():
                if n == 10**8 and method == "Vadam, plain":
                    continue  # a minute, and nothing new
                found = seconds({method: make(method)}, max(3, repeats // 4) if n < 10**8 else 2)
                times[n] = round(1000 * statistics.median(found[method]), 3)
            slope = round(exponent(list(times), list(times.values())), 2)
            results[axis][method] = {"ms": times, "exponent": slope}
            print(
                f"  {method:18}" + "".join(f"{times.get(n, float('nan')):12.2f}" for n in points) + f"{slope:12.2f}",
                flush=True,
            )
    print("\nthreads, ms, 11.7 million weights")
    before, results["threads"] = torch.get_num_threads(), {}
    for threads in range(1, (os.cpu_count() or 1) + 1):
        torch.set_num_threads(threads)
        found = seconds({method: work(method, resnet18_shapes()) for method in methods}, repeats)
        results["threads"][threads] = {m: round(1000 * statistics.median(t), 3) for m, t in found.items()}
        print(f"  {threads}: {results['threads'][threads]}", flush=True)
    torch.set_num_threads(before)
    return results


def profile(repeats: int) -> dict[str, Any]:
    """Profile a step on one thread with Python's own profiler, which makes Python itself look slower."""
    results: dict[str, Any] = {}
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    for name in ("mlp", "residual, GroupNorm"):
        for method in ("Adam fused", "Vadam", "VOGN"):
            step = training(name, method)
            for _ in range(10):
                step()
            profiler = cProfile.Profile()
            profiler.enable()
            for _ in range(10 * repeats):
                step()
            profiler.disable()
            parts = dict.fromkeys(("torch's operators", "native loops", "Python of vadam", "other Python"), 0.0)
            calls = 0
            for (file, _, function), (_, count, own, _, _) in pstats.Stats(profiler).stats.items():  # type: ignore[attr-defined]
                calls += count
                parts[_part_of(file, function)] += 1000 * own / (10 * repeats)
            found = {part: round(ms, 3) for part, ms in parts.items()} | {"calls": calls // (10 * repeats)}
            results.setdefault(name, {})[method] = found
            print(f"  {name}, {method}: {found}", flush=True)
    torch.set_num_threads(before)
    return results


def _part_of(file: str, function: str) -> str:
    if file.endswith("backends/threads.py"):
        return "native loops"
    if f"{os.sep}vadam{os.sep}" in file:
        return "Python of vadam"
    return "torch's operators" if file == "~" and ("torch" in function or "Tensor" in function) else "other Python"


def without_native(repeats: int) -> dict[str, Any]:
    """Measure the work by torch's operators alone in new processes: how much fresh memory a step costs differs between processes."""
    names, threads = ("Adam fused", "Vadam, plain", "authors' Vadam"), torch.get_num_threads()
    print(f"\nthe optimizer's work without native loops, median of {PROCESSES} processes")
    runs = []
    for _ in range(PROCESSES):
        runs.append(in_new_process(_milliseconds, names, repeats, threads))
        print("  " + ", ".join(f"{name} {ms:.1f} ms" for name, ms in runs[-1].items()), flush=True)
    return {
        name: {"ms": statistics.median(run[name] for run in runs), "all": [run[name] for run in runs]} for name in names
    }


def _milliseconds(names: Sequence[str], repeats: int, threads: int) -> dict[str, float]:
    torch.set_num_threads(threads)
    steps = {name: work(name, resnet18_shapes()) for name in names}
    seconds(steps, 2)
    return {name: round(1000 * statistics.median(found), 2) for name, found in seconds(steps, repeats).items()}


PARTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "networks": networks,
    "work": alone,
    "plain": without_native,
    "growth": growth,
    "profile": profile,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument(
        "--only",
        nargs="+",
        choices=list(PARTS),
        default=list(PARTS),
        help="parts that are not measured keep what is recorded",
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/step.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    before = json.loads(arguments.out.read_text())["results"] if arguments.out.exists() else {}
    results = {
        name: part(arguments.repeats) if name in arguments.only else before[name]
        for name, part in PARTS.items()
        if name in arguments.only or name in before
    }
    write(arguments.out, results, threads=arguments.threads, repeats=arguments.repeats)


if __name__ == "__main__":
    main()
