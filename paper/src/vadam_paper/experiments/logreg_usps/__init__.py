"""Fig. 2b: negative ELBO, test log-loss and distance from the exact mean-field posterior on USPS 3 against 5."""

from vadam_paper.experiments.contract import Experiment

EXPERIMENT = Experiment(
    name="logreg-usps",
    artefact="Figure 2b",
    title="Quality of the posterior approximations on USPS 3 against 5",
    package=__name__,
    order=21,
)
