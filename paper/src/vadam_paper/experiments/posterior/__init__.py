"""Beyond the paper: what a posterior is good for besides error bars: learning task after task, merging, pruning."""

from vadam_paper.experiments.contract import Experiment

EXPERIMENT = Experiment(
    name="posterior",
    artefact="Posterior",
    title="Yesterday’s posterior as prior, merging, pruning",
    package=__name__,
    protocols=("text",),
    order=77,
    sweep=True,
)
