"""Beyond the paper: the family on image classifiers, with GroupNorm and with BatchNorm, beside what users compare with."""

from vadam_paper.experiments.contract import Experiment

EXPERIMENT = Experiment(
    name="image",
    artefact="Image classifiers",
    title="Accuracy, calibration and foreign inputs on image classifiers",
    package=__name__,
    protocols=("text",),
    order=80,
    own_data=True,
)
