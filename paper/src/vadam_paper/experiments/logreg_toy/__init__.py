"""Fig. 2a: posterior approximations of a two-dimensional Bayesian logistic regression."""

from vadam_paper.experiments.contract import Experiment

EXPERIMENT = Experiment(
    name="logreg-toy",
    artefact="Figure 2a",
    title="Posterior approximations on a toy logistic regression",
    package=__name__,
    order=20,
)
