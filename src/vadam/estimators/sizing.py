"""Choose the network size and the training length by the number of rows.

Chosen on validation rows of the data sets of ``benchmarks/tabular.py``: wider and deeper networks pay from some thousand rows on.
A search in rungs trains many settings for a short time, on few folds, and the better ones for longer.
"""

from __future__ import annotations

from dataclasses import dataclass

FEW, MANY, LARGE = 1_000, 2_000, 10_000
STEPS = 2_000
"""Steps of a training with few rows."""


@dataclass(frozen=True)
class Rung:
    """Train ``settings`` of the candidates on ``folds`` folds for a ``share`` of the steps."""

    settings: int
    folds: int
    share: float


def hidden_for(rows: int) -> tuple[int, ...]:
    """Return the sizes of the hidden layers."""
    return (50,) if rows < MANY else (100, 100)


def batch_size_for(rows: int) -> int:
    """Return the number of examples per step."""
    return 32 if rows < FEW else 128 if rows < LARGE else 256


def steps_for(rows: int) -> int:
    """Return the number of steps of a training: at least 2,000, and 40 passes over many rows."""
    return max(STEPS, 40 * rows // batch_size_for(rows)) if rows >= MANY else STEPS


def lr_for(rows: int) -> float:
    """Return the learning rate at the start, for Vadam; deeper networks need a smaller one."""
    return 0.02 if rows < MANY else 0.01


def rungs_for(rows: int, budget: int, folds: int) -> list[Rung]:
    """Return the rungs of the search; the best setting of the last one wins."""
    few = max(1, min(budget, -(-budget // 4)))
    if rows >= 2 * MANY:
        return [Rung(budget, 1, 0.1), Rung(few, 1, 0.4)]
    return [Rung(budget, min(folds, 1 if rows >= FEW else 2), 0.25), Rung(few, min(folds, 3), 0.5)]


def folds_held_out(rows: int, folds: int) -> int:
    """Return how many folds are held out once more, by the setting that was found, to calibrate its predictions."""
    wanted = 1 if rows >= 2 * MANY else 2 if rows >= MANY else 3 if rows >= FEW else folds
    return min(wanted, folds)
