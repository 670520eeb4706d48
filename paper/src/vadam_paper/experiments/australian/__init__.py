"""Fig. 3 left: the convergence of BBVI, Vadam and VOGN on a small network."""

from vadam_paper.experiments.contract import Experiment

EXPERIMENT = Experiment(
    name="australian",
    artefact="Figure 3, left",
    title="Convergence of BBVI, Vadam and VOGN on Australian-Scale",
    package=__name__,
    order=40,
)
