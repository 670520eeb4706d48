"""The claims of App. L."""

from vadam_paper.experiments.intervals import share
from vadam_paper.experiments.ledger import Claim, Evidence
from vadam_paper.experiments.local_minima.table import at_flat_minimum
from vadam_paper.experiments.results import Results
from vadam_paper.experiments.verdicts import above, below, every, exactly

NEARLY_ALL, HALF = 0.95, 0.5
"""Shares of runs, against which Wilson's 95 % intervals are judged."""


def _reaches_flat_minimum(results: Results) -> Evidence:
    run = results["text"]
    four, all_seeds = at_flat_minimum(run["paths"]["variational"]), at_flat_minimum(run["seeds"])
    grid = at_flat_minimum(run["grid"]["variational"])
    text = (
        f"{four.sum()} of 4 runs reach it; over {all_seeds.shape[1]} seeds {all_seeds.sum()} of {all_seeds.size}; from a "
        f"grid of starts {grid.sum()} of {grid.size}."
    )
    return Evidence(
        every(exactly(bool(four.all())), above(share(int(all_seeds.sum()), all_seeds.size), NEARLY_ALL)), text
    )


def _descent_gets_stuck(results: Results) -> Evidence:
    run = results["text"]
    four, grid = at_flat_minimum(run["paths"]["gradient_descent"]), at_flat_minimum(run["grid"]["gradient_descent"])
    places = len({tuple(round(x, 1) for x in theta) for theta in run["paths"]["gradient_descent"]["theta"]})
    text = (
        f"{four.sum()} of 4 runs reach the flat minimum, they end in {places} places; from a grid of starts "
        f"{grid.sum()} of {grid.size} reach it."
    )
    return Evidence(every(exactly(four.sum() == 0), below(share(int(grid.sum()), grid.size), HALF)), text)


def _perturbation_does_it(results: Results) -> Evidence:
    run = results["text"]
    without, moved = at_flat_minimum(run["unperturbed"]), at_flat_minimum(run["shifted"])
    text = (
        f"Without perturbation {without.sum()} of 4 reach the flat minimum; with it, and the landscape moved away from "
        f"the prior's mean, {moved.sum()} of {moved.size}."
    )
    return Evidence(every(exactly(without.mean() < HALF), above(share(int(moved.sum()), moved.size), HALF)), text)


CLAIMS = (
    Claim(
        "minima-flat",
        "App. L",
        "Vadam annealed to VadaGrad navigates the landscape to the flat (and global) minimum from all four starts.",
        _reaches_flat_minimum,
    ),
    Claim("minima-stuck", "App. L", "Gradient descent gets stuck in various locations.", _descent_gets_stuck),
    Claim(
        "minima-perturbation",
        "§1, App. L",
        "It is the weight-perturbation that lets the method avoid local minima.",
        _perturbation_does_it,
    ),
)
