"""App. L: variational optimisation on a landscape with many local minima, Vadam annealed to VadaGrad."""

from vadam_paper.experiments.contract import Experiment

EXPERIMENT = Experiment(
    name="local-minima",
    artefact="Appendix L",
    title="Avoiding sharp minima by annealing Vadam to VadaGrad",
    package=__name__,
    protocols=("text",),
    order=60,
)
