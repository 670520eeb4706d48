"""Compare starts of the posterior on eight tasks, for a user who gives only ``lr`` and ``num_data``.

    python -m benchmarks.defaults [--tasks sine,boston] [--optimizers Vadam,VOGN] [--candidates prior,N] [--out results.json] [--update]

Each optimizer trains each task of `benchmarks.tasks` from each candidate start, everything else at its default. Reported is the
negative log-likelihood of validation data by ``vadam.predict`` with 32 draws, as nats above Adam's at the same number of steps,
and the share of Adam's way from the best constant prediction that it has gone. Nothing looks at test data. With ``--update`` the
rows measured replace those of an earlier record; each then names its own commit.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import vadam
from benchmarks.tasks import TASKS, Task
from benchmarks.timing import commit, write
from vadam.gaussian import MeanFieldGaussian

DRAWS = 32
Start = Callable[[float, int], dict[str, Any]]


def start_at(precision: Callable[[float, int], float]) -> Start:
    """Return a candidate: init_precision as a function of N and of the number of weights, hess_init for IVON."""
    return lambda N, D: {"init_precision": max(1.0, precision(N, D))}


CANDIDATES: dict[str, Start] = {
    "default": lambda N, D: {},
    "prior": start_at(lambda N, D: 1.0),
    "N/100": start_at(lambda N, D: N / 100),
    "N/10": start_at(lambda N, D: N / 10),
    "N": start_at(lambda N, D: N),
    "10N": start_at(lambda N, D: 10 * N),
    "100N": start_at(lambda N, D: 100 * N),
    "1e4": start_at(lambda N, D: 1e4),
    "max(N,1e4)": start_at(lambda N, D: max(N, 1e4)),
    "N+D": start_at(lambda N, D: N + D),
}
RATES: dict[str, dict[str, Any]] = {
    "Vadam": {"lr": 1e-3}, "Vprop": {"lr": 1e-3}, "BBVI": {"lr": 1e-3}, "VOGN": {}, "VON": {}, "IVON": {}, "FullVON": {},
}  # fmt: skip
SMALL = ("sine",)


def train(task: Task, make: Callable[[nn.Module], torch.optim.Optimizer], seed: int) -> tuple[nn.Module, Any]:
    """Return the trained network and its optimizer."""
    torch.manual_seed(seed)
    model = task.network()
    opt = make(model)
    differentiates_twice = not getattr(opt, "has_loop", True)
    for x, y in task.batches(torch.Generator().manual_seed(seed)):

        def closure(x: torch.Tensor = x, y: torch.Tensor = y) -> torch.Tensor:
            opt.zero_grad()
            loss = task.likelihood.nll(model(x), y.flatten() if y.ndim == 2 and not y.is_floating_point() else y)
            if not differentiates_twice:
                loss.backward()
            return loss

        opt.step(closure)
    return model, opt


def scores(task: Task, model: nn.Module, post: Any) -> dict[str, float]:
    """Return the negative log-likelihood and the accuracy (or error) on validation data."""
    x, y = task.validation
    y = y.flatten() if y.ndim == 2 and not y.is_floating_point() else y
    pred = vadam.predict(
        model, post, x, samples=DRAWS, likelihood=task.likelihood, generator=torch.Generator().manual_seed(0)
    )
    found = {"nll": -float(pred.log_prob(y).double().mean())}
    if y.is_floating_point():
        return found | {"rmse": float((pred.mean - y).square().mean().sqrt())}
    return found | {"accuracy": float((pred.probs.argmax(-1) == y).double().mean())}


def constant(task: Task) -> float:
    """Return the validation NLL of a network that ignores its input: class frequencies, or the mean."""
    y, v = task.train[1].flatten(), task.validation[1].flatten()
    if y.is_floating_point():
        return float(task.likelihood.nll(y.mean().expand_as(v), v))
    counts = torch.bincount(y, minlength=int(max(y.max(), v.max())) + 1).double() + 1
    return -float((counts / counts.sum()).log()[v].mean())


def by_adam(task: Task, seed: int) -> dict[str, float]:
    """Return the scores of Adam at the same rate and number of steps: a network without noise."""
    model, _ = train(task, lambda m: torch.optim.Adam(m.parameters(), 1e-3), seed)
    point = {name: p.detach().clone() for name, p in model.named_parameters()}
    return scores(task, model, MeanFieldGaussian({}, {}, point=point))


def by(task: Task, optimizer: str, arguments: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return the scores of an optimizer with some arguments, or why it stopped."""
    weights = sum(p.numel() for p in task.network().parameters())
    start = arguments.pop("start")(task.N, weights)
    if optimizer == "IVON" and "init_precision" in start:  # its name of the start
        start = {"hess_init": start["init_precision"] / task.N}
    if optimizer == "VadamGGN" or optimizer == "VOGN":
        make = lambda m: getattr(vadam, optimizer)(m.parameters(), num_data=task.N, **start, **arguments).attach(m)  # noqa: E731
    else:
        make = lambda m: getattr(vadam, optimizer)(m.parameters(), num_data=task.N, **start, **arguments)  # noqa: E731
    try:
        model, opt = train(task, make, seed)
        post = opt.posterior(model)
        found = scores(task, model, post)
    except (RuntimeError, ValueError, FloatingPointError) as error:
        return {"nll": math.nan, "error": str(error)[:200]}
    shares = post.summary().shares if hasattr(post, "summary") else None
    return found | ({"start_share": shares.start, "prior_share": shares.prior} if shares is not None else {})


def line(task: str, optimizer: str, start: str, row: dict[str, Any], adam: float, seconds: float) -> str:
    """Return a row of the printed table."""
    score = row.get("accuracy", row.get("rmse", math.nan))
    shares = f"{row.get('start_share', math.nan):>7.2f}{row.get('prior_share', math.nan):>7.2f}"
    numbers = f"{row['nll']:>9.3f}{row['nll'] - adam:>9.3f}{row['way']:>7.2f}{score:>8.3f}"
    return f"{task:<12}{optimizer:<10}{start:<12}{numbers}{shares}{seconds:>6.1f}  {row.get('error', '')[:90]}"


def parsed(options: list[str]) -> dict[str, Any]:
    """Return arguments such as lr=0.1 as a dictionary of numbers."""
    pairs = (option.split("=") for option in options)
    return {name: tuple(map(float, value.split("/"))) if "/" in value else float(value) for name, value in pairs}


def update(path: Path, results: dict[str, dict[str, Any]]) -> None:
    """Replace the rows of optimizers in a record; constants and Adam's stay those of the record."""
    record = json.loads(path.read_text())
    for task, rows in results.items():
        record["results"][task] |= {name: row for name, row in rows.items() if "/" in name}
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"\nupdated {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--optimizers", default=",".join(RATES))
    parser.add_argument("--candidates", default="default,prior")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--set", nargs="*", default=[], metavar="NAME=VALUE", help="other arguments, e.g. lr=0.01 betas=0.9/0.99"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "defaults.json")
    parser.add_argument("--update", action="store_true", help="replace the rows measured in the file, keep the others")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    results: dict[str, dict[str, Any]] = {}
    print(
        f"{'task':<12}{'optimizer':<10}{'start':<12}{'NLL':>9}{'- Adam':>9}{'way':>7}{'score':>8}{'start':>7}{'prior':>7}{'s':>6}"
    )
    for name in options.tasks.split(","):
        task = TASKS[name]()
        base, adam = constant(task), by_adam(task, options.seed)
        rows = results[name] = {"constant": {"nll": base}, "Adam": adam}
        print(
            f"{name:<12}{'constant':<22}{base:>9.3f}\n{name:<12}{'Adam':<22}{adam['nll']:>9.3f}{'':>16}{[*adam.values()][1]:>8.3f}",
            flush=True,
        )
        for optimizer in options.optimizers.split(","):
            if optimizer == "FullVON" and name not in SMALL:
                continue
            for candidate in options.candidates.split(","):
                begun = time.perf_counter()
                arguments = {**RATES[optimizer], **parsed(options.set), "start": CANDIDATES[candidate]}
                row = by(task, optimizer, arguments, options.seed)
                row["way"] = (base - row["nll"]) / (base - adam["nll"])
                rows[f"{optimizer}/{candidate}"] = row | ({"commit": commit()} if options.update else {})
                print(line(name, optimizer, candidate, row, adam["nll"], time.perf_counter() - begun), flush=True)
    if options.update:
        update(options.out, results)
    else:
        write(options.out, results, draws=DRAWS, seed=options.seed, set=options.set)


if __name__ == "__main__":
    main()
