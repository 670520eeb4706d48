"""Bayesian optimisation of hyper-parameters, many searches in lock step.

A cell is one search over the folds of one training set. In every round, each cell suggests its next point, the folds of all cells
are trained together as one stack, and each cell learns the mean score of its folds.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice
from typing import Any

import torch
from torch import nn

from vadam.ensemble import Member, Method, train
from vadam.ensemble.members import contents
from vadam.ensemble.training import COMPILE_FROM
from vadam.tuning.journal import Journal, Trial
from vadam.tuning.suggest import Point, Space, check_space, next_points, random_point

TUNABLE = ("dropout", "lr", "noise_precision", "prior_precision", "temperature")
CLASSIFYING = ("bernoulli", "categorical")
METRICS = ("log_likelihood", "joint_log_likelihood", "accuracy")


@dataclass(frozen=True)
class Tuned:
    """The best point of a cell, its value, and all trials. The value is −inf if every trial failed."""

    point: Point
    value: float
    trials: list[Trial]


def tune(
    cells: Mapping[str, Sequence[Member]],
    space: Space,
    network: nn.Module,
    method: Method,
    *,
    trials: int = 30,
    startup: int = 5,
    at_once: int = 1,
    metric: str = "log_likelihood",
    robust: bool = True,
    seed: int = 0,
    journal: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    compiled: bool | None = None,
    progress: Callable[[int, int], None] | None = None,
    **training: Any,
) -> dict[str, Tuned]:
    """Return the point of each cell with the largest mean of ``metric`` over the test rows of its folds.

    Args:
        cells: the folds of each search by name: members with test rows. The searched numbers in them are ignored.
        space: the bounds of the searched numbers by the name of the member's field, e.g.
            ``{"prior_precision": (0.02, 50.0), "noise_precision": (1.0, 150.0)}``. All axes are logarithmic.
        network, method, training: as for ``train``.
        trials, startup: number of points per cell, and how many of them are random.
        at_once: number of points of a cell that are tried together after the random ones. More points make larger stacks and
            fewer rounds, but each is chosen without the results of the others.
        metric: "log_likelihood", "joint_log_likelihood" or "accuracy", to be maximised.
        robust: clip very bad values before the Gaussian process sees them (``suggest.next_point``).
        seed: seed of the searches. The folds have their own seeds.
        journal: a file of all trials. If it exists, the search continues from it and ends as if it had not stopped. The
            journal of a search with other data or settings is refused.
        jobs: number of processes, for training and for suggesting points.
        progress: called with the number of finished trials and the number of all trials, over all cells.

    A trial in which a fold diverges has the value −inf, and the search continues.
    """
    check_space(space)
    space = {name: (float(low), float(high)) for name, (low, high) in space.items()}
    _check(cells, space, method, metric, trials, startup, at_once, seed)
    if metric == "accuracy" and (likelihood := training.get("likelihood", "gaussian")) not in CLASSIFYING:
        raise ValueError(
            f"metric='accuracy' needs likelihood='bernoulli' or 'categorical', not {likelihood!r}: maximise 'log_likelihood'"
        )
    folds = {cell: list(members) for cell, members in cells.items()}
    record = Journal(
        journal, _description(folds, space, network, method, metric, startup, at_once, robust, seed, training)
    )
    if compiled is None:
        epochs, size = training.get("epochs", 40), training.get("batch_size", 32)
        steps = sum(-(-m.train_rows // size) * (m.epochs or epochs) for members in folds.values() for m in members)
        compiled = trials * steps >= COMPILE_FROM

    def finished() -> int:
        return sum(min(trials, len(tried)) for tried in record.trials.values())

    while finished() < trials * len(folds):
        asked = [(cell, k) for cell in folds for k in _next_trials(len(record.trials[cell]), startup, at_once, trials)]
        points = _suggestions(jobs, space, record, asked, startup, at_once, robust, seed)
        questions = [(cell, point) for (cell, _), point in zip(asked, points, strict=True)]
        members = [replace(fold, **point) for cell, point in questions for fold in folds[cell]]  # type: ignore[arg-type]
        result = train(members, network, method, keep=False, jobs=jobs, compiled=compiled, **training)
        values = iter(result.scores[metric].tolist())
        record.add([(cell, point, list(islice(values, len(folds[cell])))) for cell, point in questions])
        if progress:
            progress(finished(), trials * len(folds))
    best = {cell: max(tried[:trials], key=lambda trial: trial.value) for cell, tried in record.trials.items()}
    return {cell: Tuned(trial.point, trial.value, record.trials[cell][:trials]) for cell, trial in best.items()}


def _next_trials(done: int, startup: int, at_once: int, trials: int) -> range:
    """Return the numbers of the trials in the next round: all random points at once, then ``at_once`` trials a round."""
    return range(done, min(trials, startup if done < startup else _round(done, startup, at_once) + at_once))


def _round(trial: int, startup: int, at_once: int) -> int:
    """Return the number of the first trial in the round of a trial."""
    return trial - (trial - startup) % at_once


def _suggestions(
    jobs: int,
    space: Space,
    record: Journal,
    asked: list[tuple[str, int]],
    startup: int,
    at_once: int,
    robust: bool,
    seed: int,
) -> list[Point]:
    """Return a point for every trial. It depends on the earlier rounds of its cell, not on other cells."""
    calls: list[tuple[Any, ...]] = []
    for cell, group in groupby(asked, key=lambda question: question[0]):
        numbers = [k for _, k in group]
        seeds = [[seed, zlib.crc32(cell.encode()), k] for k in numbers]
        if numbers[0] < startup:
            calls.append((_random_points, space, seeds))
            continue
        first, trials = _round(numbers[0], startup, at_once), record.trials[cell]
        tried = [(trial.point, trial.value) for trial in trials[:first]]
        calls.append((_next_points, space, tried, [trial.point for trial in trials[first:]], seeds, robust))
    if jobs == 1 or all(function is _random_points for function, *_ in calls):
        return [point for function, *arguments in calls for point in function(*arguments)]
    import joblib

    answers = joblib.Parallel(n_jobs=jobs)(joblib.delayed(function)(*arguments) for function, *arguments in calls)
    return [point for points in answers for point in points]


def _random_points(space: Space, seeds: list[list[int]]) -> list[Point]:
    return [random_point(space, seed) for seed in seeds]


def _next_points(
    space: Space, tried: list[tuple[Point, float]], begun: list[Point], seeds: list[list[int]], robust: bool
) -> list[Point]:
    """Return the next points, computed on one thread so that they do not depend on the number of threads."""
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        return next_points(space, tried, begun, seeds, robust=robust)
    finally:
        torch.set_num_threads(threads)


def _check(
    cells: Mapping[str, Sequence[Member]],
    space: Space,
    method: Method,
    metric: str,
    trials: int,
    startup: int,
    at_once: int,
    seed: int,
) -> None:
    if not cells:
        raise ValueError("there is no cell to tune: give at least one")
    for cell, members in cells.items():
        if not isinstance(cell, str):
            raise TypeError(f"cell {cell!r} must have a name, a text: give str({cell!r})")
        if not members or any(member.test is None for member in members):
            raise ValueError(f"cell {cell!r} needs folds to score: members with test rows, at least one")
    if unknown := sorted(set(space) - set(TUNABLE)):
        raise ValueError(f"{unknown[0]!r} cannot be searched: the space may name {', '.join(TUNABLE)}")
    lowest = {name: low for name, (low, _) in space.items()}
    for cell, members in cells.items():
        for k, member in enumerate(members):  # before a journal is begun
            name, tried = f"fold {k} of cell {cell!r}", replace(member, **lowest)  # type: ignore[arg-type]
            tried.check(name)
            method.check(tried, name)
    if metric not in METRICS:
        raise ValueError(f"metric={metric!r} is not valid: choose one of {', '.join(map(repr, METRICS))}")
    for name, value, least in (
        ("trials", trials, 1),
        ("startup", startup, 1),
        ("at_once", at_once, 1),
        ("seed", seed, 0),
    ):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name}={value!r} is not valid: give a whole number from {least}")


def _description(
    folds: dict[str, list[Member]],
    space: Space,
    network: nn.Module,
    method: Method,
    metric: str,
    startup: int,
    at_once: int,
    robust: bool,
    seed: int,
    training: Mapping[str, Any],
) -> dict[str, Any]:
    """Return everything that must be the same for a search to continue from its journal."""
    return {
        "cells": list(folds),
        "rows": [[member.train_rows for member in members] for members in folds.values()],
        "seeds": [[member.seed for member in members] for members in folds.values()],
        "starts": ["own" if member.init is None else "given" for members in folds.values() for member in members[:1]],
        "network": repr(network),
        "space": {name: list(bounds) for name, bounds in space.items()},
        "method": {"name": method.name, **{name: _described(value) for name, value in method.as_dict().items()}},
        "metric": metric,
        "startup": startup,
        "at_once": at_once,
        "robust": robust,
        "seed": seed,
        "training": {name: _described(value) for name, value in training.items() if value is not None},
        **{field: value for field, value in contents(list(chain(*folds.values()))).items() if field not in space},
    }


def _described(value: Any) -> str | int | float:
    """Return a description that is the same in every process: names of functions, reprs without memory addresses."""
    if isinstance(value, str | int | float):
        return value
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
