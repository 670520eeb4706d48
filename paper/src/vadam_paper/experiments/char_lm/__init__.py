"""App. M: the marginal value of adaptive methods, a character-level language model of War and Peace."""

from vadam_paper.experiments.contract import Experiment

EXPERIMENT = Experiment(
    name="char-lm",
    artefact="Appendix M",
    title="VadaGrad on a character-level language model",
    package=__name__,
    protocols=("text",),
    order=70,
    presets=("smoke", "quick", "early", "long", "paper"),
    judged_from="early",
    sweep=True,
    milestone_unit="epochs",
)
