"""Fig. 3 right and App. K: exploration in deep reinforcement learning."""

from vadam_paper.experiments.contract import Experiment

EXPERIMENT = Experiment(
    name="half-cheetah",
    artefact="Figure 3, right; App. K",
    title="Exploration by weight-perturbation in DDPG on Half-Cheetah",
    package=__name__,
    order=50,
    presets=("smoke", "quick", "early", "paper"),
    judged_from="early",
    sweep=True,
    milestone_unit="steps",
)
