"""The paper's claims about cost beyond memory: computation and effort."""

from vadam_paper.experiments.contract import Experiment

EXPERIMENT = Experiment(
    name="cost",
    artefact="Abstract, §1",
    title="What the uncertainty costs",
    package=__name__,
    protocols=("text",),
    order=80,
)
