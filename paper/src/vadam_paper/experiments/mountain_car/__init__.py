"""App. K in minutes: a task that gives rewards only to agents that explore."""

from vadam_paper.experiments.contract import Experiment

EXPERIMENT = Experiment(
    name="mountain-car",
    artefact="App. K, a small task",
    title="Exploration by weights or by actions, where rewards are rare",
    package=__name__,
    protocols=("text",),
    order=55,
    judged_from="quick",
    sweep=True,
    milestone_unit="steps",
)
