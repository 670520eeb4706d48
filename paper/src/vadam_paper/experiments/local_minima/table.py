"""The table of end points."""

from typing import Any

import numpy as np

from vadam_paper.experiments.results import Results
from vadam_paper.experiments.tables import Table

LOW, FLAT = -0.99, 20.0
"""Definition of the flat minimum: objective below LOW, trace of the Hessian below FLAT (it is 2 at the origin)."""


def at_flat_minimum(ends: dict[str, Any]) -> np.ndarray:
    return (np.asarray(ends["objective"]) < LOW) & (np.asarray(ends["sharpness"]) < FLAT)


def table(results: Results) -> Table:
    columns = ("Way down", "Starts", "At the flat minimum", "Objective, mean", "tr ∇²F, median")
    run = results.get("text")
    if run is None:
        return Table("", columns, [])
    ways = {
        "Vadam to VadaGrad, four starts, all seeds": run["seeds"],
        "the same, landscape moved away from the prior’s mean": run["shifted"],
        "the same without perturbation, four starts": run["unperturbed"],
        "gradient descent, four starts": run["paths"]["gradient_descent"],
        "Vadam to VadaGrad, grid of starts": run["grid"]["variational"],
        "gradient descent, grid of starts": run["grid"]["gradient_descent"],
    }
    caption = f"At the flat minimum: F < {LOW} and tr ∇²F < {FLAT:.0f}. The paper gives no numbers."
    return Table(caption, columns, [(name, *_numbers(ends)) for name, ends in ways.items()])


def notes(results: Results) -> list[str]:
    run = results.get("text")
    if run is None:
        return []
    stuck = run["paths"]["gradient_descent"]
    values = ", ".join(f"{value:.4f}" for value in stuck["objective"])
    sharp = np.median(stuck["sharpness"])
    return [
        "The landscape has many more points than one where F comes close to −1, its lowest value: all of the line x = 0, "
        f"and isolated points beside. Gradient descent is stuck at values {values}, not far above the lowest, but where "
        f"the curvature is {sharp:.0f} against 2 at the origin. What variational optimisation finds is the flat one.",
        "The prior of q is centred at the origin, where the flat minimum is, so it might lead there by itself. It does "
        "not: without the perturbation of the weights, and everything else the same, all four runs end in sharp minima; "
        "and with the landscape moved away from the prior’s mean the perturbed runs still find the flat one.",
    ]


def _numbers(ends: dict[str, Any]) -> tuple[str, ...]:
    found = at_flat_minimum(ends)
    return (
        str(found.size),
        f"{100 * found.mean():.0f} %",
        f"{np.mean(ends['objective']):.4f}",
        f"{np.median(ends['sharpness']):.1f}",
    )
