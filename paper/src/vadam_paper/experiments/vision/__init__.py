"""Beyond the paper: what a variational optimizer buys on Fashion-MNIST and MNIST, beside tuned baselines."""

from vadam_paper.experiments.contract import Experiment

EXPERIMENT = Experiment(
    name="vision",
    artefact="Fashion-MNIST and MNIST",
    title="Calibration, shifted and out-of-distribution images with LeNet-5",
    package=__name__,
    protocols=("text",),
    order=75,
    sweep=True,
)
