"""Fig. 2c: the effect of the minibatch size on Vadam's posterior, beside VOGN with minibatches of one."""

from vadam_paper.experiments.contract import Experiment

EXPERIMENT = Experiment(
    name="logreg-breast-cancer",
    artefact="Figure 2c",
    title="Vadam's distance from the exact mean-field posterior against the minibatch size",
    package=__name__,
    order=22,
)
