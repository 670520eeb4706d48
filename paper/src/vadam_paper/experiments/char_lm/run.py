"""Run one cell for each method, seed and milestone; a later one resumes from the earlier."""

from typing import Any

from vadam_paper.experiments import milestones
from vadam_paper.experiments.char_lm.config import OTHER_READING, OURS, PAPER, Config
from vadam_paper.experiments.context import CellContext

COST = {"vogn": 2.2}
"""Relative cost of an epoch, where it is not 1."""


def cells(config: Config) -> dict[str, float]:
    """Return the cells: first all runs to the first milestone, the paper's methods seed by seed, then ours."""
    return {
        milestones.key(method, seed, end): COST.get(method, 1.0) * length
        for end, length in milestones.lengths(config.stretches).items()
        for methods in (PAPER, OTHER_READING, OURS)
        for seed in range(config.seeds)
        for method in methods
        if method in config.methods and not (method in OTHER_READING and _beyond(config, seed, end))
    }


def _beyond(config: Config, seed: int, end: int) -> bool:
    """Return True for a cell that the other reading of F, tried for a few epochs, does not have."""
    return config.other_reading_epochs is not None and (seed > 0 or end > config.other_reading_epochs)


def run_cell(config: Config, key: str, context: CellContext) -> dict[str, Any]:
    from vadam_paper.experiments.char_lm.methods import METHODS
    from vadam_paper.experiments.char_lm.text import war_and_peace
    from vadam_paper.experiments.char_lm.trial import Trial

    method, seed, end = milestones.parse_key(key)
    trial = Trial(config, METHODS[method], seed, war_and_peace(config.characters, context.data))
    so_far = context.shared_checkpoint(f"{method}-{seed}")
    restored = context.restore() or so_far.restore()
    if restored is not None and len(restored[1]["points"]) <= end:
        trial.load(*restored)
    while trial.epoch < end:
        trial.advance()
        context.report(trial.epoch / end)
        context.checkpoint(trial.tensors(), trial.meta())
    so_far.checkpoint(trial.tensors(), trial.meta())
    return trial.summary()
