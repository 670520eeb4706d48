"""Theorem 1, the fixed points of App. H, and the identities that the paper states between its algorithms."""

from vadam_paper.experiments.contract import Experiment

EXPERIMENT = Experiment(
    name="theory",
    artefact="Theorem 1, App. D to H",
    title="The paper's theorem and identities, checked numerically",
    package=__name__,
    protocols=("text",),
    order=10,
)
