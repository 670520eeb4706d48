"""The table of arrivals at the top."""

import numpy as np

from vadam_paper.experiments.results import Recorded, Results
from vadam_paper.experiments.rl.records import trials
from vadam_paper.experiments.tables import Table

NAMES = {
    "vadam-episode": "Vadam, one sample an episode",
    "vadam-step": "Vadam, one sample a step",
    "adam-action-noise": "Adam, independent noise on actions",
    "adam-correlated-noise": "Adam, correlated noise on actions",
    "adam-plain": "Adam-Plain",
}


def table(results: Results) -> Table:
    columns = (
        "Method",
        "Trials",
        "… that reached the top",
        "Arrivals a trial",
        "First arrival, step",
        "Test return at the end",
    )
    rows = [
        _row(results["text"], method, name)
        for method, name in NAMES.items()
        if results and trials(results["text"], method)
    ]
    caption = "While learning, and with the mean weights at the end. 100 for the top, less the force that it took; 0 for standing still."
    return Table(caption, columns, rows)


def arrived(run: Recorded, method: str) -> list[int]:
    return [trial["arrivals"] for trial in trials(run, method)]


def notes(results: Results) -> list[str]:
    return [
        "Noise that is correlated in time swings the car. Weights that are kept for an episode push in a consistent way, and "
        "Ornstein–Uhlenbeck noise pushes in one direction for a while. Weights or actions that are perturbed independently at "
        "every step average out. Before the first arrival every reward is a cost, and standing still is the best policy. "
        "Reaching the top is not the same as having learned: the test returns are those of the mean weights."
    ]


def _row(run: Recorded, method: str, name: str) -> tuple[str, ...]:
    found = trials(run, method)
    first = [trial["first_arrival"] for trial in found if trial["first_arrival"] is not None]
    ends = [trial["mean"][-1] for trial in found]
    return (
        name,
        str(len(found)),
        str(sum(a > 0 for a in arrived(run, method))),
        f"{np.mean(arrived(run, method)):.1f}",
        f"{np.median(first):,.0f} (median)" if first else "–",
        f"{np.mean(ends):.1f} (best {max(ends):.1f})",
    )
