"""Run one cell for each part of the theory."""

from typing import Any

from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.theory import (
    first_actions,
    fixed_points,
    ggn_error,
    identities,
    mirror_descent,
    momentum,
    speed_and_quality,
    theorem1,
)
from vadam_paper.experiments.theory.config import Config

CHECKS = {
    "theorem-1": theorem1.check,
    "fixed-points": fixed_points.check,
    "identities": identities.check,
    "mirror-descent": mirror_descent.check,
    "ggn-error": ggn_error.check,
    "speed-and-quality": speed_and_quality.check,
    "first-actions": first_actions.check,
    "momentum": momentum.check,
}
COSTS = {"fixed-points": 10.0, "momentum": 10.0, "speed-and-quality": 30.0, "ggn-error": 10.0}


def cells(config: Config) -> dict[str, float]:
    return {check: COSTS.get(check, 1.0) for check in CHECKS}


def run_cell(config: Config, key: str, context: CellContext) -> dict[str, Any]:
    return CHECKS[key](config)
