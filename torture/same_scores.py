"""The same score in other words: order, containers, types, weights; and what numpy, scipy and scikit-learn say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import special, stats
from sklearn import metrics as sklearn

from torture.case import Case, Failed, Outcome
from torture.same_predictions import equal
from vadam import calibration, metrics
from vadam.likelihoods import Categorical, Gaussian
from vadam.prediction import Classes, Regression

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Score:
    """A score, the arrays that it takes, which axis of each counts the examples, and an oracle that others wrote."""

    function: Callable[..., Any]
    draw: Callable[[np.random.Generator, int], Arrays]
    oracle: Callable[..., Any]
    of_draws: bool = False  # the first array has the draws on its first axis


def numbers(rng: np.random.Generator, n: int) -> Arrays:
    scale, centre = 10.0 ** rng.integers(-3, 4), rng.choice([0.0, 0.0, 5.0])
    return {"prediction": (centre + rng.normal(size=n)) * scale, "y": (centre + rng.normal(size=n)) * scale}


def intervals(rng: np.random.Generator, n: int) -> Arrays:
    low = rng.normal(size=n)
    return {"lower": low, "upper": low + rng.exponential(size=n), "y": rng.normal(size=n)}


def draws(rng: np.random.Generator, n: int) -> Arrays:
    return {"samples": rng.normal(size=(int(rng.integers(1, 9)), n)).round(1), "y": rng.normal(size=n)}


def log_probs(rng: np.random.Generator, n: int) -> Arrays:
    return {"log_prob_samples": -rng.exponential(20, size=(int(rng.integers(1, 9)), n))}


def classes(rng: np.random.Generator, n: int) -> Arrays:
    """Draw probabilities of three classes, some of them equal, and labels among which a class may be missing."""
    probs = rng.dirichlet([0.5, 1, 2], size=n)
    probs[: n // 3] = probs[0]
    return {"probs": probs, "y": rng.integers(0, int(rng.integers(1, 4)), size=n)}


def two_classes(rng: np.random.Generator, n: int) -> Arrays:
    return {"probs": rng.uniform(size=n).round(int(rng.integers(1, 4))), "y": rng.integers(0, 2, size=n)}


def ranked(rng: np.random.Generator, n: int) -> Arrays:
    y = rng.integers(0, 2, size=n)
    y[:2] = 0, 1
    return {"score": rng.normal(size=n).round(1), "y": y}


def selected(rng: np.random.Generator, n: int) -> Arrays:
    return {"uncertainty": rng.uniform(size=n).round(1), "loss": rng.integers(0, 2, size=n).astype(float)}


def chances(rng: np.random.Generator, n: int) -> Arrays:
    return {"pit": rng.uniform(size=n)}


def crps_by_pairs(samples: np.ndarray, y: np.ndarray) -> float:
    return float((np.abs(samples - y).mean(0) - np.abs(samples[:, None] - samples).mean((0, 1)) / 2).mean())


def crps_by_quadrature(samples: np.ndarray, y: np.ndarray) -> float:
    """Integrate (F(x) − 1[x ≥ y])² for a mixture of Gaussians of deviation 0.5."""
    x = np.linspace(-12, 12, 24_001)
    F = stats.norm.cdf(x[:, None, None], samples, 0.5).mean(1)
    return float(np.trapezoid((F - (x[:, None] >= y)) ** 2, x, axis=0).mean())


def interval_score(lower: np.ndarray, upper: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(upper - lower + 20 * (np.maximum(lower - y, 0) + np.maximum(y - upper, 0))))


def ece_by_loop(probs: np.ndarray, y: np.ndarray) -> float:
    probs = np.stack([1 - probs, probs], 1) if probs.ndim == 1 else probs
    confidence, right = probs.max(1), probs.argmax(1) == y
    bins = np.clip(np.ceil(np.float32(confidence) * np.float32(15)), 1, 15)
    return float(
        sum(abs(right[bins == b].mean() - confidence[bins == b].mean()) * np.mean(bins == b) for b in set(bins))
    )


def aurc_by_orders(uncertainty: np.ndarray, loss: np.ndarray) -> float:
    """Average the area over random orders of examples that are equally uncertain."""
    rng, areas = np.random.default_rng(0), []
    for _ in range(2000):
        order = np.lexsort((rng.uniform(size=len(loss)), uncertainty))
        areas.append((loss[order].cumsum() / np.arange(1, len(loss) + 1)).mean())
    return float(np.mean(areas))


def coverage_at(uncertainty: np.ndarray, loss: np.ndarray) -> float:
    shares = [np.mean(uncertainty <= u) for u in uncertainty if loss[uncertainty <= u].mean() <= 0.4]
    return float(max(shares, default=0))


def log_loss(log_prob_samples: np.ndarray) -> float:
    return float(-(special.logsumexp(log_prob_samples, axis=0) - np.log(len(log_prob_samples))).mean())


def joint(log_prob_samples: np.ndarray) -> float:
    S, n = log_prob_samples.shape
    return float((special.logsumexp(log_prob_samples.sum(1)) - np.log(S)) / n)


def calibration_gap(pit: np.ndarray) -> float:
    levels = np.arange(1, 20) / 20
    return float(np.abs((np.float32(pit) <= np.float32(levels)[:, None]).mean(1) - levels).mean())


SCORES = {
    "rmse": Score(metrics.rmse, numbers, lambda prediction, y: sklearn.root_mean_squared_error(y, prediction)),
    "coverage": Score(metrics.coverage, intervals, lambda lower, upper, y: np.mean((lower <= y) & (y <= upper))),
    "interval_score": Score(metrics.interval_score, intervals, interval_score),
    "crps": Score(metrics.crps, draws, crps_by_pairs, of_draws=True),
    "crps of Gaussians": Score(
        lambda samples, y: metrics.crps(samples, y, 0.5), draws, crps_by_quadrature, of_draws=True
    ),
    "nll": Score(metrics.nll, log_probs, log_loss, of_draws=True),
    "joint_log_likelihood": Score(metrics.joint_log_likelihood, log_probs, joint, of_draws=True),
    "calibration_error": Score(metrics.calibration_error, chances, calibration_gap),
    "accuracy": Score(metrics.accuracy, classes, lambda probs, y: np.mean(probs.argmax(1) == y)),
    "brier": Score(metrics.brier, classes, lambda probs, y: ((probs - np.eye(3)[y]) ** 2).sum(1).mean()),
    "brier of two": Score(metrics.brier, two_classes, lambda probs, y: ((probs - y) ** 2).mean()),
    "ece": Score(metrics.ece, classes, ece_by_loop),
    "auroc": Score(metrics.auroc, ranked, lambda score, y: sklearn.roc_auc_score(y, score)),
    "aurc": Score(metrics.aurc, selected, aurc_by_orders),
    "coverage_at_risk": Score(lambda u, loss: metrics.coverage_at_risk(u, loss, 0.4), selected, coverage_at),
}


def containers(values: np.ndarray) -> dict[str, Any]:
    whole = values.dtype.kind == "i"
    other = {
        "a tensor": torch.from_numpy(values),
        "a list": values.tolist(),
        "strided": torch.from_numpy(np.repeat(values, 2, axis=-1))[..., ::2],
        "of single precision": torch.from_numpy(values) if whole else torch.from_numpy(values).float(),
    }
    return other | ({"of small integers": torch.from_numpy(values).to(torch.uint8)} if whole else {})


def check_score(name: str, score: Score, rng: np.random.Generator, found: Outcome) -> None:
    n = int(rng.integers(3, 30))
    given = score.draw(rng, n)
    said = f"{name} of {given}"
    expected = float(score.function(*given.values()))
    tolerance = {"aurc": 0.02, "crps of Gaussians": 1e-3}.get(name, 1e-4)  # of random orders and of quadrature
    equal(f"{said} by an oracle", expected, score.oracle(*given.values()), tolerance)
    found.add("oracles")
    order = rng.permutation(n)

    def reordered(values: np.ndarray) -> np.ndarray:
        return values[:, order] if score.of_draws and values.ndim == 2 else values[order]

    others: dict[str, list[Any]] = {"rows in another order": [reordered(values) for values in given.values()]}
    others["twice the rows"] = [
        np.concatenate([values, values], axis=1 if score.of_draws and values.ndim == 2 else 0)
        for values in given.values()
    ]
    if score.of_draws:
        first, *rest = given.values()
        others["draws in another order"] = [first[rng.permutation(len(first))], *rest]
    for kind in ("a tensor", "a list", "strided", "of single precision", "of small integers"):
        others[kind] = [containers(values).get(kind, values) for values in given.values()]
    for words, arguments in others.items():
        if words == "twice the rows" and name in ("aurc", "joint_log_likelihood"):
            continue  # means over ranks, and over all targets together
        equal(f"{said}, {words}", float(score.function(*arguments)), expected, 1e-4)
        found.add(words)
    found.add("answers", 1 + len(others))


def check_weights(rng: np.random.Generator, found: Outcome) -> None:
    """Compare weights with rows that are repeated."""
    n = int(rng.integers(3, 20))
    log_p, weight = -rng.exponential(size=(4, n)), rng.integers(0, 3, size=n)
    weight[0] = 1
    expected = float(metrics.log_likelihood(log_p.repeat(weight, axis=1)))
    for words, given in {
        "row": weight,
        "column": weight[:, None],
        "list": weight.tolist(),
        "share": weight / 7,
    }.items():
        equal(
            f"log_likelihood with weights {weight} as a {words}",
            float(metrics.log_likelihood(log_p, given)),
            expected,
            1e-6,
        )
        found.add("answers")
    found.add("weights")


def check_scaling(rng: np.random.Generator, found: Outcome) -> None:
    """Find a temperature with the rows in two orders; no other one has a higher likelihood."""
    n = int(rng.integers(20, 60))
    logits, y = torch.from_numpy(rng.normal(size=(2, n, 3)) * 4), torch.from_numpy(rng.integers(0, 3, size=n))
    y[: n // 2] = logits.mean(0).argmax(1)[: n // 2]
    order = torch.from_numpy(rng.permutation(n))
    scaling = calibration.TemperatureScaling.fit(Classes(logits, Categorical()), y)
    again = calibration.TemperatureScaling.fit(Classes(logits[:, order], Categorical()), y[order])
    equal(f"temperature with rows in the order {order.tolist()}", again.temperature, scaling.temperature, 1e-3)

    def nll(temperature: float) -> float:
        return float(metrics.nll(Classes(logits / temperature, Categorical()).log_prob_samples(y)))

    best = nll(scaling.temperature)
    for factor in (0.5, 0.8, 0.95, 1.05, 1.25, 2.0):
        if nll(scaling.temperature * factor) < best - 1e-5:
            raise Failed(f"temperature {scaling.temperature} is worse than {factor} times it: {best}, y {y.tolist()}")
    found.add("answers", 2)
    found.add("scalings", 2)


def check_conformal(rng: np.random.Generator, found: Outcome) -> None:
    """Compare the radius of split conformal intervals with its definition, and the coverage of the rows that it is fitted to."""
    n, level = int(rng.integers(2, 60)), float(rng.choice([0.5, 0.8, 0.9, 0.95]))
    samples, y = torch.from_numpy(rng.normal(size=(3, n))), torch.from_numpy(rng.normal(size=n).round(1))
    pred = Regression(samples, Gaussian(1.0))
    conformal = calibration.ConformalIntervals.fit(pred, y, score="absolute")
    errors = (y - samples.mean(0)).abs().sort().values
    k = int(np.ceil((n + 1) * level - 1e-9))
    expected = float(errors[k - 1]) if k <= n else float("inf")
    equal(f"radius of {errors.tolist()} at {level}", float(conformal.radius(level)), expected, 1e-6)
    low, high = conformal.interval(pred, level)
    if float(metrics.coverage(low - 1e-9, high + 1e-9, y)) < min(k, n) / n - 1e-9:
        raise Failed(f"intervals of level {level} hold too few of {n} rows")
    found.add("answers", 2)
    found.add("conformal intervals", 2)


def scores(case: Case) -> Outcome:
    """Compute every score of some random arrays, in all words and by its oracle."""
    found, rng = Outcome(), np.random.default_rng(case.random.randrange(2**32))
    for name, score in SCORES.items():
        check_score(name, score, rng, found)
    check_weights(rng, found)
    check_scaling(rng, found)
    check_conformal(rng, found)
    return found
