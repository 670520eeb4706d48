"""Hyper-parameters by Bayesian optimisation, many searches in lock step.

A cell is one search: the folds of one training set. In every round all cells are asked for their next point, the folds of
all cells are trained together as one stack, and the means over the folds are told.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch
from torch import nn

from vadam.ensemble.journal import Journal, Trial
from vadam.ensemble.members import Member
from vadam.ensemble.methods import Method
from vadam.ensemble.suggest import Point, Space, check_space, next_point, random_point
from vadam.ensemble.train import COMPILE_FROM, train

TUNABLE = ("dropout", "lr", "noise_precision", "prior_precision", "temperature")
METRICS = ("log_likelihood", "joint_log_likelihood", "accuracy")


@dataclass(frozen=True)
class Tuned:
    """The best point of a cell, its value, and all that was tried. The value is −inf if every trial failed."""

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
    metric: str = "log_likelihood",
    robust: bool = True,
    seed: int = 0,
    journal: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    compiled: bool | None = None,
    progress: Callable[[int, int], None] | None = None,
    **training: Any,
) -> dict[str, Tuned]:
    """The best numbers for each cell, by the mean of ``metric`` over its folds' test rows.

    Args:
        cells: by name, the folds of each search as members with test rows; the searched numbers in them do not matter.
        space: the bounds of the numbers to search, by the name of the member's field, e.g.
            ``{"prior_precision": (0.02, 50.0), "noise_precision": (1.0, 150.0)}``; all are searched in logarithms.
        network, method, training: as for ``train``.
        trials, startup: points a cell, and how many of them are random.
        metric: "log_likelihood", "joint_log_likelihood" or "accuracy"; it is made large.
        robust: whether hopeless values are seen as less so (``suggest.next_point``); a plain Gaussian process sees all as they are.
        seed: of the searches. The folds have seeds of their own.
        journal: a file of all trials. If it exists, the search goes on from there and ends as if it had not stopped.
        jobs: processes, for the training and for the questions.
        progress: called with the number of trials done, in all cells, and of all.

    A trial in which a fold diverges has the value −inf; the search goes on.
    """
    check_space(space)
    _check(cells, space, metric, trials, startup)
    folds = {cell: list(members) for cell, members in cells.items()}
    record = Journal(journal, _description(folds, space, network, method, metric, startup, robust, seed, training))
    if compiled is None:
        epochs, size = training.get("epochs", 40), training.get("batch_size", 32)
        steps = sum(-(-m.train_rows // size) * (m.epochs or epochs) for members in folds.values() for m in members)
        compiled = trials * steps >= COMPILE_FROM

    def finished() -> int:
        return sum(min(trials, len(tried)) for tried in record.trials.values())

    while finished() < trials * len(folds):
        asked = [(cell, k) for cell in folds for k in _next_trials(len(record.trials[cell]), startup, trials)]
        points = _suggestions(jobs, space, record, asked, startup, robust, seed)
        questions = [(cell, point) for (cell, _), point in zip(asked, points, strict=True)]
        members = [replace(fold, **point) for cell, point in questions for fold in folds[cell]]  # type: ignore[arg-type]
        result = train(members, network, method, keep=False, jobs=jobs, compiled=compiled, **training)
        values = iter(result.scores[metric].tolist())
        record.add([(cell, point, list(islice(values, len(folds[cell])))) for cell, point in questions])
        if progress:
            progress(finished(), trials * len(folds))
    best = {cell: max(tried[:trials], key=lambda trial: trial.value) for cell, tried in record.trials.items()}
    return {cell: Tuned(trial.point, trial.value, record.trials[cell][:trials]) for cell, trial in best.items()}


def _next_trials(done: int, startup: int, trials: int) -> range:
    """The random points depend on nothing, so all of them are one round; after them a round is one trial."""
    return range(done, min(trials, max(startup, done + 1)))


def _suggestions(
    jobs: int, space: Space, record: Journal, asked: list[tuple[str, int]], startup: int, robust: bool, seed: int
) -> list[Point]:
    """A point for every trial asked for; it depends on its cell and the trials before, not on other cells."""
    calls: list[tuple[Any, ...]] = []
    for cell, k in asked:
        own_seed = [seed, zlib.crc32(cell.encode()), k]
        if k < startup:
            calls.append((random_point, space, own_seed))
        else:
            tried = [(trial.point, trial.value) for trial in record.trials[cell]]
            calls.append((_next_point, space, tried, own_seed, robust))
    if jobs == 1 or all(function is random_point for function, *_ in calls):
        return [function(*arguments) for function, *arguments in calls]
    import joblib

    return list(joblib.Parallel(n_jobs=jobs)(joblib.delayed(function)(*arguments) for function, *arguments in calls))


def _next_point(space: Space, tried: list[tuple[Point, float]], seed: list[int], robust: bool) -> Point:
    """On one thread: the matrices are small, and the point must not depend on the number of threads."""
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        return next_point(space, tried, seed, robust=robust)
    finally:
        torch.set_num_threads(threads)


def _check(cells: Mapping[str, Sequence[Member]], space: Space, metric: str, trials: int, startup: int) -> None:
    if not cells:
        raise ValueError("there is no cell to tune: give at least one")
    for cell, members in cells.items():
        if not members or any(member.test is None for member in members):
            raise ValueError(f"cell {cell!r} needs folds to score: members with test rows, at least one")
    if unknown := sorted(set(space) - set(TUNABLE)):
        raise ValueError(f"{unknown[0]!r} cannot be searched: the space may name {', '.join(TUNABLE)}")
    if metric not in METRICS:
        raise ValueError(f"metric={metric!r} is not valid: choose one of {', '.join(map(repr, METRICS))}")
    for name, value in (("trials", trials), ("startup", startup)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name}={value!r} is not valid: give a whole number from 1")


def _description(
    folds: dict[str, list[Member]],
    space: Space,
    network: nn.Module,
    method: Method,
    metric: str,
    startup: int,
    robust: bool,
    seed: int,
    training: Mapping[str, Any],
) -> dict[str, Any]:
    """What must be the same for a search to go on."""
    return {
        "cells": list(folds),
        "rows": [[member.train_rows for member in members] for members in folds.values()],
        "seeds": [[member.seed for member in members] for members in folds.values()],
        "starts": ["own" if member.init is None else "given" for members in folds.values() for member in members[:1]],
        "network": repr(network),
        "space": {name: list(bounds) for name, bounds in space.items()},
        "method": repr(method),
        "metric": metric,
        "startup": startup,
        "robust": robust,
        "seed": seed,
        "training": {name: value for name, value in training.items() if isinstance(value, str | int | float)},
    }
