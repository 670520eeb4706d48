"""Beyond the paper: variational optimizers on image classifiers with GroupNorm and BatchNorm, beside common baselines."""

from vadam_paper.experiments.contract import Experiment

EXPERIMENT = Experiment(
    name="image",
    artefact="Image classifiers",
    title="Accuracy, calibration and out-of-distribution inputs on image classifiers",
    package=__name__,
    protocols=("text",),
    order=80,
    own_data=True,
)
