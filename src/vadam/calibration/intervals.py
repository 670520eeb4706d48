"""Conformal intervals: widened until they contain enough held-out targets.

    score R of a held-out row                             interval of a new row
    absolute    |y − m(x)|                                m(x) ± R̂
    scaled      |y − m(x)|/s(x)                           m(x) ± R̂ s(x)               adapts to the predicted spread s
    quantile    max(low(x) − y, y − high(x))              low(x) − R̂, high(x) + R̂     Romano et al. 2019

Split conformal: R̂ is the ⌈(n + 1) level⌉-th smallest score. If held-out and new rows are exchangeable, the interval holds y
with probability at least ``level``, and at most 1/(n + 1) more, on average over all rows. Too few held-out rows give an
infinite interval.

Cross-conformal (CV+, Barber et al. 2021): every row is held out once, by the model of its fold. The ends are order statistics
of m₋ₖ(x) ∓ Rᵢ over all rows i, with the model of i's fold. At least 2 level − 1 is guaranteed, ``level`` is what one sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from vadam.calibration.ranks import check_level, kth_smallest, upper_rank
from vadam.likelihoods import as_tensor, like_output

SCORES = ("absolute", "scaled", "quantile")
FLOATS_AT_ONCE = 2**24


class NumberPrediction(Protocol):
    """The protocol of a prediction of numbers, e.g. :class:`vadam.prediction.Regression`."""

    @property
    def mean(self) -> Tensor: ...

    @property
    def std(self) -> Tensor: ...

    def interval(self, level: float) -> tuple[Tensor, Tensor]: ...


@dataclass(frozen=True, eq=False)
class ConformalIntervals:
    """Split conformal intervals around any prediction of numbers.

    ``prediction`` and ``y`` are those of held-out rows, of one target each.

    >>> from vadam.likelihoods import Gaussian
    >>> from vadam.prediction import Regression
    >>> held_out = Regression(torch.zeros(1, 9), Gaussian(1.0)), torch.arange(1.0, 10.0)
    >>> conformal = ConformalIntervals.fit(*held_out, score="absolute")
    >>> [end.tolist() for end in conformal.interval(Regression(torch.full((1, 1), 5.0), Gaussian(1.0)), level=0.8)]
    [[-3.0], [13.0]]
    """

    prediction: NumberPrediction
    y: Tensor
    score: str = "scaled"

    def __post_init__(self) -> None:
        _check_rows(self.prediction, self.y, self.score)

    @classmethod
    def fit(cls, prediction: NumberPrediction, y: Tensor, *, score: str = "scaled") -> ConformalIntervals:
        """Keep the scores of held-out rows."""
        return cls(prediction, as_tensor(y, prediction.mean), score)

    def radius(self, level: float = 0.9) -> Tensor:
        """Return R̂, by which the intervals of this level are widened, in the unit of the score."""
        check_level(level)
        scores = _scores(self.prediction, self.y, self.score, level)
        return kth_smallest(scores, upper_rank(len(scores), level))

    def interval(self, prediction: NumberPrediction, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Return lower and upper end of intervals that contain new targets with probability ``level``."""
        low, high, unit = _centre(prediction, self.score, level)
        radius = self.radius(level) * unit
        return low - radius, high + radius


@dataclass(frozen=True, eq=False)
class CrossConformalIntervals:
    """Cross-conformal intervals (CV+), which need no separate calibration rows.

    ``held_out`` has a pair for each fold: the prediction of the rows that its model was not fitted with, and their targets.
    """

    held_out: Sequence[tuple[NumberPrediction, Tensor]]
    score: str = "scaled"

    def __post_init__(self) -> None:
        if len(self.held_out) < 2:
            raise ValueError(f"cross-conformal intervals need at least 2 folds, got {len(self.held_out)}")
        for prediction, y in self.held_out:
            _check_rows(prediction, y, self.score)

    @classmethod
    def fit(
        cls, held_out: Sequence[tuple[NumberPrediction, Tensor]], *, score: str = "scaled"
    ) -> CrossConformalIntervals:
        """Keep the scores of all rows."""
        return cls([(prediction, as_tensor(y, prediction.mean)) for prediction, y in held_out], score)

    def interval(self, predictions: Sequence[NumberPrediction], level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Return lower and upper end of the intervals of new rows, given the prediction of every fold's model."""
        check_level(level)
        if len(predictions) != len(self.held_out):
            raise ValueError(f"give the predictions of all {len(self.held_out)} folds, got {len(predictions)}")
        scores = [_scores(prediction, y, self.score, level) for prediction, y in self.held_out]
        centres = [_centre(prediction, self.score, level) for prediction in predictions]
        n = sum(map(len, scores))
        rank = upper_rank(n, level)
        shape = centres[0][0].shape
        columns = [tuple(part.flatten() for part in centre) for centre in centres]
        step = max(1, FLOATS_AT_ONCE // n)
        ends = []
        for first in range(0, columns[0][0].numel(), step):
            rows = slice(first, first + step)
            lows = torch.cat(
                [low[rows] - R[:, None] * unit[rows] for R, (low, _, unit) in zip(scores, columns, strict=True)]
            )
            highs = torch.cat(
                [high[rows] + R[:, None] * unit[rows] for R, (_, high, unit) in zip(scores, columns, strict=True)]
            )
            ends.append((kth_smallest(lows, n + 1 - rank), kth_smallest(highs, rank)))
        low, high = (torch.cat(parts).reshape(shape) for parts in zip(*ends, strict=True))
        return low, high


def _scores(prediction: NumberPrediction, y: Tensor, score: str, level: float) -> Tensor:
    low, high, unit = _centre(prediction, score, level)
    y = like_output(y, low)
    return (torch.maximum(low - y, y - high) / unit).flatten()


def _centre(prediction: NumberPrediction, score: str, level: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the interval to widen, and the unit of the widening.

    For two of the scores the interval is the mean alone.
    """
    if score == "quantile":
        low, high = prediction.interval(level)
        return low, high, torch.ones_like(low)
    mean = prediction.mean
    return mean, mean, prediction.std if score == "scaled" else torch.ones_like(mean)


def _check_rows(prediction: NumberPrediction, y: Tensor, score: str) -> None:
    if score not in SCORES:
        raise ValueError(f"score={score!r} is not valid: choose one of {', '.join(map(repr, SCORES))}")
    mean = prediction.mean
    if mean.dim() > 1 and mean[0].numel() > 1:
        raise ValueError(f"predictions of shape {list(mean.shape)} have several targets a row: conformalise each alone")
    like_output(y, mean)
    if not bool(y.isfinite().all()):
        raise ValueError("y holds a value that is not finite: leave these rows out")
    if score == "scaled" and bool((prediction.std <= 0).any()):
        raise ValueError(
            "a predicted standard deviation is 0, by which errors cannot be scaled: use score='absolute', or predict with a likelihood"
        )
