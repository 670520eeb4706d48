"""The claims of App. L."""

from vadam_paper.experiments.ledger import Claim, Evidence, judged
from vadam_paper.experiments.local_minima.table import at_flat_minimum
from vadam_paper.experiments.results import Results


def _reaches_flat_minimum(results: Results) -> Evidence:
    run = results["text"]
    four, all_seeds = at_flat_minimum(run["paths"]["variational"]), at_flat_minimum(run["seeds"])
    grid = at_flat_minimum(run["grid"]["variational"])
    text = (
        f"{four.sum()} of 4 runs reach it; over {all_seeds.shape[1]} seeds {all_seeds.sum()} of {all_seeds.size}; from a "
        f"grid of starts {grid.sum()} of {grid.size}."
    )
    return judged(bool(four.all() and all_seeds.mean() > 0.95), text)


def _descent_gets_stuck(results: Results) -> Evidence:
    run = results["text"]
    four, grid = at_flat_minimum(run["paths"]["gradient_descent"]), at_flat_minimum(run["grid"]["gradient_descent"])
    places = len({tuple(round(x, 1) for x in theta) for theta in run["paths"]["gradient_descent"]["theta"]})
    text = (
        f"{four.sum()} of 4 runs reach the flat minimum, they end in {places} places; from a grid of starts "
        f"{grid.sum()} of {grid.size} reach it."
    )
    return judged(bool(four.sum() == 0 and grid.mean() < 0.5), text)


def _perturbation_does_it(results: Results) -> Evidence:
    run = results["text"]
    without, moved = at_flat_minimum(run["unperturbed"]), at_flat_minimum(run["shifted"])
    text = (
        f"Without perturbation {without.sum()} of 4 reach the flat minimum; with it, and the landscape moved away from "
        f"the prior's mean, {moved.sum()} of {moved.size}."
    )
    return judged(bool(without.mean() < 0.5 < moved.mean()), text)


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
