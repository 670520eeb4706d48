"""Conformal sets of classes: as many classes as needed to contain the right one with a given probability.

    score R of a class c                                  classes of a new row: all c with R_c ≤ R̂
    probability   1 − p_c                                 the smallest sets on average (Sadinle et al. 2019)
    cumulative    Σ p_k over the classes with p_k > p_c   larger sets where the model is uncertain (after Romano et al. 2020)

R̂ is the ⌈(n + 1) level⌉-th smallest score of the true classes of n held-out rows. If held-out and new rows are exchangeable,
a set holds the true class with probability at least ``level``. By "probability" a set may be empty: no class is likely
enough there. By "cumulative" a set always holds the most probable class, and the true class more often than ``level`` if
the model alone is right that often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vadam.calibration.ranks import check_level, kth_smallest, upper_rank
from vadam.likelihoods import as_tensor
from vadam.prediction import Binary, Classes

SCORES = ("probability", "cumulative")


@dataclass(frozen=True, eq=False)
class ConformalSets:
    """Split conformal sets from predictions of classes, calibrated on held-out rows.

    ``scores`` are those of the true classes.
    """

    scores: Tensor
    score: str = "cumulative"

    @classmethod
    def fit(cls, prediction: Classes, y: Tensor, *, score: str = "cumulative") -> ConformalSets:
        """Keep the scores of the true classes ``y`` of held-out rows."""
        return cls(_scores_of_labels(prediction, y, score), score)

    def threshold(self, level: float = 0.9) -> Tensor:
        """Return R̂, the largest score of a class in a set of this level."""
        check_level(level)
        return kth_smallest(self.scores, upper_rank(len(self.scores), level))

    def sets(self, prediction: Classes, level: float = 0.9) -> Tensor:
        """Return True for every class in the set of a row, [n, C]."""
        return _class_scores(prediction, self.score) <= self.threshold(level)


@dataclass(frozen=True, eq=False)
class CrossConformalSets:
    """Cross-conformal sets: every row is held out once, by the model of its fold.

    A class is in the set if its score, by the model of row i's fold, is above that of fewer than level (n + 1) of the rows i.
    """

    scores: Sequence[Tensor]
    score: str = "cumulative"

    @classmethod
    def fit(cls, held_out: Sequence[tuple[Classes, Tensor]], *, score: str = "cumulative") -> CrossConformalSets:
        """Keep the scores of all rows, from a pair for each fold: the prediction of held-out rows, and their classes."""
        if len(held_out) < 2:
            raise ValueError(f"cross-conformal sets need at least 2 folds, got {len(held_out)}")
        return cls([_scores_of_labels(prediction, y, score) for prediction, y in held_out], score)

    def sets(self, predictions: Sequence[Classes], level: float = 0.9) -> Tensor:
        """Return True for every class in the set of a row, [n, C], from the prediction of every fold's model."""
        check_level(level)
        if len(predictions) != len(self.scores):
            raise ValueError(f"give the predictions of all {len(self.scores)} folds, got {len(predictions)}")
        below: Tensor | int = 0
        for scores, prediction in zip(self.scores, predictions, strict=True):
            below = below + torch.searchsorted(scores.sort().values, _class_scores(prediction, self.score).contiguous())
        n = sum(map(len, self.scores))
        inside: Tensor = torch.as_tensor(below) < upper_rank(n, level)
        return inside


def _class_scores(prediction: Classes, score: str) -> Tensor:
    if score not in SCORES:
        raise ValueError(f"score={score!r} is not valid: choose one of {', '.join(map(repr, SCORES))}")
    probs = prediction.probs
    if isinstance(prediction, Binary):
        probs = torch.stack([1 - probs.flatten(), probs.flatten()], dim=-1)
    if probs.dim() != 2:
        raise ValueError(f"probabilities of shape {list(probs.shape)} are not [n, C]: give one label a row")
    if score == "probability":
        return 1 - probs
    ordered, classes = probs.sort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(probs).scatter(-1, classes, ordered.cumsum(-1) - ordered)


def _scores_of_labels(prediction: Classes, y: Tensor, score: str) -> Tensor:
    scores = _class_scores(prediction, score)
    given = as_tensor(y, scores).flatten()
    y = given.long()
    if len(y) != len(scores) or bool(((y != given) | (y < 0) | (y >= scores.shape[1])).any()):
        raise ValueError(f"give {len(scores)} labels from 0 to {scores.shape[1] - 1}, one for each row")
    return scores.gather(-1, y[:, None]).squeeze(-1)
