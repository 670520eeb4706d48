"""Beyond the paper: posteriors with correlations, by EVON, beside every diagonal method."""

from vadam_paper.experiments.contract import Experiment

EXPERIMENT = Experiment(
    name="correlated",
    artefact="EVON",
    title="Correlated posteriors: logistic regression, a small network, LeNet-5",
    package=__name__,
    protocols=("text",),
    order=78,
)
