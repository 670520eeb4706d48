"""One cell for each method, seed and stretch of epochs; a later stretch goes on from the earlier."""

from typing import Any

from vadam_paper.experiments import stretches
from vadam_paper.experiments.char_lm.config import OURS, PAPER, Config
from vadam_paper.experiments.work import Work

COST = {"vogn": 2.2}
"""Of an epoch, where it is not 1."""


def cells(config: Config) -> dict[str, float]:
    """First all runs to the first stretch: the paper's methods seed by seed, then ours."""
    return {
        stretches.key(method, seed, end): COST.get(method, 1.0) * length
        for end, length in stretches.lengths(config.stretches).items()
        for methods in (PAPER, OURS)
        for seed in range(config.seeds)
        for method in methods
        if method in config.methods
    }


def run_cell(config: Config, key: str, work: Work) -> dict[str, Any]:
    from vadam_paper.experiments.char_lm.methods import METHODS
    from vadam_paper.experiments.char_lm.text import war_and_peace
    from vadam_paper.experiments.char_lm.trial import Trial

    method, seed, end = stretches.parsed(key)
    trial = Trial(config, METHODS[method], seed, war_and_peace(config.characters, work.data))
    so_far = work.beside(f"{method}-{seed}")
    restored = work.restore() or so_far.restore()
    if restored is not None and len(restored[1]["points"]) <= end:
        trial.load(*restored)
    while trial.epoch < end:
        trial.advance()
        work.report(trial.epoch / end)
        work.checkpoint(trial.tensors(), trial.meta())
    so_far.checkpoint(trial.tensors(), trial.meta())
    return trial.summary()
