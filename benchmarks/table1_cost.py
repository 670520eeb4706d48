"""Measure the cost of Table 1: where the time of a training goes, and the whole protocol beside the authors' loop.

    python -m benchmarks.table1_cost [--sets yacht kin8nm] [--epochs 4] [--out benchmarks/results/table1_cost.json]

For each set and method one stack of cross-validation networks is trained for a few epochs, compiled, with the time of every
part taken; one search is asked for its next points; and the authors' optimizer, written down again in ``benchmarks.ensemble``,
runs its loop on the same network and minibatch (for BBVI too, with BBVI's samples). Times are processor time on one thread. From them
follow the processor hours of the whole protocol: for every set and split 30 points, 25 of them asked for, of 5 folds, and
the final run.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.ensemble import STEPS_A_ROUND, authors, looped
from benchmarks.timing import write
from vadam.ensemble import Settings, Trainer
from vadam.ensemble.scores import scores
from vadam.tuning.suggest import next_point, random_point
from vadam_paper import data
from vadam_paper.experiments.uci import methods
from vadam_paper.experiments.uci.config import SETS, Config, preset
from vadam_paper.experiments.uci.split_networks import final_members, folds

SPLITS = 4  # with five folds a stack of twenty
CONFIG: Config = replace(preset("paper", "authors"), splits=SPLITS)
PARTS = ("setting up", "minibatches", "steps", "scores")


class Stopwatch:
    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)

    def time(self, part: str, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function and add its processor time to a part."""
        start = time.process_time()
        try:
            return function(*args)
        finally:
            self.seconds[part] += time.process_time() - start


def seconds_a_question() -> float:
    """Measure the search for a set of 30 points, asked for all but the first five."""
    bounds = methods.space(CONFIG, "vadam", "boston")
    values = np.random.default_rng(0).uniform(-1, 0, 29)
    tried = [(random_point(bounds, [0, k]), float(value)) for k, value in enumerate(values)]
    times = []
    for count in (5, 12, 20, 29, 5, 12, 20, 29):
        start = time.process_time()
        next_point(bounds, tried[:count], [0, count])
        times.append(time.process_time() - start)
    return statistics.mean(times[4:])  # the first ones import


def stack_costs(name: str, method: str, epochs: int) -> dict[str, float]:
    """Seconds of a network, and of one of its steps, by part."""
    setting = methods.setting(CONFIG, method, name)
    size, samples = setting.pop("chunk"), setting.pop("evaluation_samples")
    settings = Settings(**setting | {"epochs": epochs, "compiled": True})
    members = [fold for member in final_members(CONFIG, name, None) for fold in folds(CONFIG, member)]
    warm = Trainer(members[:size], settings)
    warm.step(next(warm.batches()))  # compiles
    watch = Stopwatch()
    for first in range(0, len(members), size):
        trainer = watch.time("setting up", Trainer, members[first : first + size], settings)
        batches = trainer.batches()
        while (batch := watch.time("minibatches", next, batches, None)) is not None:
            watch.time("steps", trainer.step, batch)
        watch.time("scores", scores, trainer.stack, trainer.tests, samples)
    steps = sum(epochs * -(-len(m.train) // settings.batch_size) for m in members)
    once = {part: watch.seconds[part] / len(members) for part in ("setting up", "scores")}
    return once | {part: watch.seconds[part] / steps for part in ("minibatches", "steps")}


def seconds_a_looped_step(name: str, samples: int) -> float:
    run = looped(data.registry.find(name).d, methods.batch_size(name), samples, authors)
    times = []
    for _ in range(6):
        start = time.process_time()
        run()
        times.append((time.process_time() - start) / STEPS_A_ROUND)
    return min(times[1:])


def protocol(name: str, costs: dict[str, float], question: float, looped_step: float) -> dict[str, float]:
    """Processor hours for 20 splits of the set, by part, and those of the loop."""
    paper = preset("paper", "authors")
    rows, M = round(0.9 * data.registry.find(name).n), methods.batch_size(name)
    fold_rows = rows - rows // paper.folds
    trainings = paper.splits * paper.trials * paper.folds
    steps = paper.epochs * (trainings * -(-fold_rows // M) + paper.splits * -(-rows // M))
    hours = {part: trainings * costs[part] / 3600 for part in ("setting up", "scores")}
    hours["scores"] *= 1 + paper.epochs / (paper.trials * paper.folds)  # the final runs are scored after every epoch
    hours |= {part: steps * costs[part] / 3600 for part in ("minibatches", "steps")}
    hours["questions"] = paper.splits * (paper.trials - paper.startup) * question / 3600
    return hours | {"whole": sum(hours.values()), "authors' loop": steps * looped_step / 3600}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--methods", nargs="+", default=["vadam", "bbvi"])
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/table1_cost.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    question = seconds_a_question()
    print(f"a question to the search: {question:.3f} s of processor time\n")
    print(f"{'':18}{'network':>10}{'loop':>10}{'times':>8}   hours of the protocol, by part")
    cells: dict[str, Any] = {}
    for name in arguments.sets:
        for method in arguments.methods:
            samples = methods.setting(CONFIG, method, name)["method"].samples
            costs, step = stack_costs(name, method, arguments.epochs), seconds_a_looped_step(name, samples)
            ours = costs["steps"] + costs["minibatches"]
            hours = protocol(name, costs, question, step)
            cells[f"{method}-{name}"] = {
                "us_per_network_step": round(1e6 * ours, 1),
                "us_per_looped_step": round(1e6 * step, 1),
                "times_faster": round(step / ours, 1),
                "hours": {part: round(value, 4) for part, value in hours.items()},
            }
            shares = ", ".join(
                f"{part} {100 * value / hours['whole']:.0f} %"
                for part, value in hours.items()
                if part not in ("whole", "authors' loop")
            )
            row = f"{1e6 * ours:>8.0f}µs{1e6 * step:>8.0f}µs{step / ours:>8.1f}   {hours['whole']:.3f}: {shares}"
            print(f"{method + ' ' + name:18}{row}", flush=True)
    whole, loop = (sum(cell["hours"][part] for cell in cells.values()) for part in ("whole", "authors' loop"))
    print(
        f"\nin all {whole:.2f} processor hours; the authors' loop without search and scores {loop:.0f}, {loop / whole:.0f} times as long"
    )
    write(arguments.out, cells, epochs=arguments.epochs, question_seconds=question, threads=1)


if __name__ == "__main__":
    main()
