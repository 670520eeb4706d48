"""Search for settings by successive halving on folds of the training rows.

A setting is scored by the log-likelihood of the rows that its folds leave out, after the noise of predictions has been fitted to
them, because that is how predictions are made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vadam.ensemble import MLP, Member, Method, Stack, cosine, train
from vadam.estimators.noise import FittedNoise, fit_noise
from vadam.estimators.sizing import Rung
from vadam.estimators.targets import Transform
from vadam.likelihoods import outputs_for
from vadam.metrics import log_likelihood

EVALUATION_SAMPLES = 30
WILD_ROWS, WILD_SAMPLES, WILD_ERROR = 500, 10, 2.0
"""Largest error of a member on its own training rows, in standard deviations of the target; above it the training has diverged."""
TRANSFORM_PENALTY = 0.1
"""Gain in log-likelihood per row that a transform of the target must bring, because it makes predicted means less accurate."""

FAR_OUT, RARE = 20.0, 0.01
"""Targets more than FAR_OUT quartile distances away are outliers, if one row has them, or at most the share RARE of the rows."""

Progress = Callable[[int, str], None]


@dataclass(frozen=True)
class Setting:
    """A setting of the search: the likelihood of the training, the transform of the target, and numbers of a member."""

    likelihood: str
    transform: str = "none"
    numbers: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """A setting, how many steps it was trained for, and its score, −inf if the training diverged."""

    setting: Setting
    steps: int
    value: float


@dataclass(frozen=True)
class Search:
    """All that was tried, in order, and the best setting of the last rung."""

    best: Setting
    value: float
    trials: list[Trial]


@dataclass(frozen=True, eq=False)
class Problem:
    """The rows of a table, its targets, and how networks for them are trained."""

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None
    hidden: tuple[int, ...]
    activation: str
    method: Callable[[int], Method]
    """Makes the method for a number of steps."""
    lr: float | None
    batch_size: int
    jobs: int
    seed: int
    classes: int | None = None
    """Number of classes; None for those of ``y``."""

    @property
    def targets(self) -> int:
        """Return the number of targets per row; for classes, the number of logits."""
        return self.y.shape[1] if self.y.ndim > 1 else 1

    def outputs(self, likelihood: str) -> int:
        """Return the number of outputs of the network."""
        if likelihood == "categorical":
            return self.classes or int(self.y.max()) + 1
        return outputs_for(likelihood, self.targets)

    def weights(self, rows: np.ndarray) -> Tensor:
        """Return how often some rows count, in the mean over all of them once."""
        return torch.from_numpy(np.ones(len(rows)) if self.weight is None else self.weight[rows] / self.weight.mean())

    def epochs(self, steps: int, rows: int) -> int:
        """Return the number of passes over the rows that makes about the wanted number of steps."""
        return max(1, round(steps / -(-rows // self.batch_size)))

    def transformed(self, kind: str) -> tuple[Transform | None, np.ndarray]:
        """Return a transform and the targets it makes."""
        if kind == "none":
            return None, self.y
        transform = Transform.fit(kind, self.y)
        return transform, transform.forward(self.y)


Fold = tuple[np.ndarray, np.ndarray]


def search(
    problem: Problem,
    settings: Sequence[Setting],
    rungs: Sequence[Rung],
    folds: Sequence[Fold],
    steps: int,
    progress: Progress | None = None,
) -> Search:
    """Return the setting with the best score after the last rung."""
    left, trials = list(settings), []
    for number, rung in enumerate(rungs, start=1):
        length = max(50, round(rung.share * steps))
        used = folds[: rung.folds]
        label = f"rung {number} of {len(rungs)}: {len(left[: rung.settings])} settings"
        values = evaluate(problem, left[: rung.settings], used, length, progress, label)
        tried = [Trial(setting, length, value) for setting, value in zip(left, values, strict=False)]
        trials += tried
        left = [trial.setting for trial in sorted(tried, key=lambda trial: -trial.value)]
    last = max(trials[-len(tried) :], key=lambda trial: trial.value)
    return Search(last.setting, last.value, trials)


def evaluate(
    problem: Problem,
    settings: Sequence[Setting],
    folds: Sequence[Fold],
    steps: int,
    progress: Progress | None = None,
    label: str = "",
) -> list[float]:
    """Return the score of every setting: the log-likelihood of the rows that the folds leave out."""
    values = [-math.inf] * len(settings)
    for likelihood in dict.fromkeys(setting.likelihood for setting in settings):
        group = [k for k, setting in enumerate(settings) if setting.likelihood == likelihood]
        members = [
            member
            for k in group
            for f, fold in enumerate(folds)
            for member in fold_members(problem, settings[k], fold, steps, f, members=1)
        ]
        stack, diverged = trained(problem, members, likelihood, steps, progress, label)
        for place, k in enumerate(group):
            rows = range(place * len(folds), (place + 1) * len(folds))
            if any(diverged[row] for row in rows):
                continue
            parts = [(stack[row], fold) for row, fold in zip(rows, folds, strict=True)]
            values[k] = score(problem, settings[k], parts)
    return values


def fold_members(
    problem: Problem, setting: Setting, fold: Fold | None, steps: int, number: int, members: int
) -> list[Member]:
    """Return networks for the training rows of a fold, or for all rows."""
    _, y = problem.transformed(setting.transform)
    y = y if setting.likelihood in ("bernoulli", "categorical") else without_outliers(y)
    rows = len(y) if fold is None else len(fold[0])
    seed = problem.seed + 1000 * (number + 1) if fold is not None else problem.seed
    return [
        Member(
            problem.x,
            y,
            weight=problem.weight,
            train=None if fold is None else fold[0],
            seed=seed + k,
            epochs=problem.epochs(steps, rows),
            lr=problem.lr,
            **setting.numbers,  # type: ignore[arg-type]
        )
        for k in range(members)
    ]


def limits_of(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the limits of targets [n, ...] beyond which one is an outlier; infinite where half of the targets are equal."""
    low, high = np.quantile(y, (0.25, 0.75), axis=0)
    far = np.where(high > low, FAR_OUT * (high - low), np.inf)
    return low - far, high + far


def without_outliers(y: np.ndarray) -> np.ndarray:
    """Return the training targets with rare outliers clipped to their limits.

    One number with zeros too many would set the scale of all others. Predictions are judged by the targets as they are.
    """
    limited = np.clip(y, *limits_of(y))
    few = (limited != y).sum(0) <= max(1, RARE * len(y))
    return np.where(few, limited, y)


def rare_outliers(y: np.ndarray, limits: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return the numbers of the rows with a target beyond the limits of earlier rows; none if there are many."""
    low, high = limits
    rows = np.flatnonzero(((y < low) | (y > high)).reshape(len(y), -1).any(1))
    return rows if len(rows) <= max(1, RARE * len(y)) else rows[:0]


def trained(
    problem: Problem,
    members: list[Member],
    likelihood: str,
    steps: int,
    progress: Progress | None = None,
    label: str = "",
) -> tuple[Stack, Tensor]:
    """Return the posteriors of all members, and which of them diverged."""
    network = MLP(problem.x.shape[1], *problem.hidden, problem.outputs(likelihood), activation=problem.activation)
    done = 0

    def report(count: int, of: int) -> None:
        nonlocal done
        if progress:
            progress((count - done) * steps, label)
        done = count

    result = train(
        members,
        network,
        problem.method(steps),
        likelihood=likelihood,
        batch_size=problem.batch_size,
        jobs=problem.jobs,
        schedule=cosine,
        progress=report,
    )
    assert result.stack is not None
    return result.stack, result.diverged


def wild(stack: Stack, members: Sequence[Member]) -> Tensor:
    """Return True for every member that explains its own training rows worse than their mean does: its training diverged."""
    if stack.likelihood in ("bernoulli", "categorical"):
        return ~stack.finite
    found = []
    for e, member in enumerate(members):
        rows = np.arange(len(member.x)) if member.train is None else np.asarray(member.train)
        rows = rows[:: max(1, len(rows) // WILD_ROWS)]
        y = torch.from_numpy(np.asarray(member.y)[rows].reshape(len(rows), -1))
        mean = stack[e].outputs(member.x[rows], WILD_SAMPLES)[0, :, :, : y.shape[1]]
        error = ((mean - y) / stack.scaling.y_std[e]).square().mean().sqrt()
        found.append(not bool(error < WILD_ERROR))
    return torch.tensor(found)


def score(problem: Problem, setting: Setting, parts: Sequence[tuple[Stack, Fold]]) -> float:
    """Return the mean log-likelihood of left-out rows, of targets after the noise has been fitted."""
    if setting.likelihood in ("bernoulli", "categorical"):
        weights = [problem.weights(out) for _, (_, out) in parts]
        values = [
            log_likelihood(
                stack.log_prob(problem.x[out], problem.y[out], EVALUATION_SAMPLES).flatten(0, 1), weight
            ).item()
            for (stack, (_, out)), weight in zip(parts, weights, strict=True)
        ]
        shares = [weight.mean().item() for weight in weights]
        return float(np.average(values, weights=shares)) if np.isfinite(values).all() else -math.inf
    fitted, slope = held_out_noise(problem, setting, parts, EVALUATION_SAMPLES)
    return fitted.log_likelihood + slope - (TRANSFORM_PENALTY if setting.transform != "none" else 0.0)


def held_out_noise(
    problem: Problem,
    setting: Setting,
    parts: Sequence[tuple[Stack, Fold]],
    samples: int,
    *,
    scale: float | None = None,
    dof: float | None = None,
) -> tuple[FittedNoise, float]:
    """Return the noise fitted to left-out rows, but for a given ``scale`` or ``dof``, and the mean log slope of the transform there."""
    transform, y = problem.transformed(setting.transform)
    held_out = []
    slopes = []
    for stack, (_, out) in parts:
        outputs = noisy_outputs(stack, problem.x[out], samples)
        held_out.append((outputs, torch.from_numpy(y[out].reshape(len(out), -1))))
        if transform is not None:
            slopes.append(transform.log_slope(torch.from_numpy(problem.y[out])))
    weights = [problem.weights(out) for _, (_, out) in parts]
    if setting.transform == "log" and dof is None:
        dof = math.inf  # no heavier tails
    fitted = fit_noise(held_out, weights=weights, scale=scale, dof=dof)
    return fitted, float(np.average(torch.cat(slopes), weights=torch.cat(weights))) if slopes else 0.0


def noisy_outputs(stack: Stack, x: np.ndarray, samples: int) -> Tensor:
    """Return means and log scales of the noise of the training, [members · samples, n, 2 T], in the units of the targets."""
    outputs = stack.outputs(x, samples)
    if stack.likelihood != "input-noise":
        scale = stack.scaling.y_std[:, None, None, :] / stack.noise_precision[:, None, None, None].double().sqrt()
        outputs = torch.cat([outputs, scale.log().expand_as(outputs)], dim=-1)
    return outputs.flatten(0, 1)


def random_settings(
    kinds: Sequence[tuple[str, str]],
    space: dict[str, tuple[float, float]],
    given: dict[str, float],
    count: int,
    seed: int,
) -> list[Setting]:
    """Return settings whose numbers are spread evenly, in logarithms, over the space; kinds take turns.

    Every kind has the same points, from the first one on. If kinds took turns along one sequence, one kind would have all low
    numbers and the next all high ones, for neighbours of a Halton sequence take turns between the halves.
    """
    from scipy.stats import qmc

    names = sorted(space)
    points = qmc.Halton(max(1, len(names)), seed=np.random.default_rng(seed)).random(count)
    used = dict.fromkeys(kinds, 0)
    found = []
    for k in range(count):
        likelihood, transform = kind = kinds[k % len(kinds)]
        point, used[kind] = points[used[kind]], used[kind] + 1
        numbers: dict[str, Any] = dict(given)
        for name, share in zip(names, point, strict=False):
            low, high = space[name]
            if not (name == "noise_precision" and likelihood == "input-noise"):
                numbers[name] = float(low * (high / low) ** share)
        found.append(Setting(likelihood, transform, numbers))
    return found
