"""Beyond the paper: intents and queries out of scope, with a classifier on top of a pre-trained language model."""

from vadam_paper.experiments.contract import Experiment

EXPERIMENT = Experiment(
    name="intent",
    artefact="CLINC150",
    title="Calibration and queries out of scope, with a pre-trained MiniLM",
    package=__name__,
    protocols=("text",),
    order=76,
    sweep=True,
)
