"""Table 1 and App. J.1: Bayesian neural networks for regression on eight UCI sets."""

from vadam_paper.experiments.contract import Experiment

EXPERIMENT = Experiment(
    name="uci",
    artefact="Table 1",
    title="Bayesian neural networks on eight UCI regression sets",
    package=__name__,
    protocols=("authors", "text", "best", "corrected"),
    aliases=("table1",),
    order=30,
    sweep=True,
)
