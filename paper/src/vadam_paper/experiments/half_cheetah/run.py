"""Run one cell for each method, trial and milestone; it also records a film strip."""

from typing import Any

from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.half_cheetah.config import Config
from vadam_paper.experiments.half_cheetah.film import film
from vadam_paper.experiments.rl.cells import cells, trained

__all__ = ["cells", "run_cell"]


def run_cell(config: Config, key: str, context: CellContext) -> dict[str, Any]:
    trial = trained(config, key, context)
    strip = film(trial.model, config.make_environment(), config.episode_steps, seed=0)
    return trial.curve.summary() | {"film": strip}
