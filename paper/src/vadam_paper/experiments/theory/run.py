"""Run one cell for each part of the theory."""

from typing import Any

from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.theory import fixed_points, identities, theorem1
from vadam_paper.experiments.theory.config import Config

CHECKS = {"theorem-1": theorem1.check, "fixed-points": fixed_points.check, "identities": identities.check}


def cells(config: Config) -> dict[str, float]:
    return {"theorem-1": 1.0, "fixed-points": 10.0, "identities": 1.0}


def run_cell(config: Config, key: str, context: CellContext) -> dict[str, Any]:
    return CHECKS[key](config)
