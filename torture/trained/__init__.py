"""An experiment for kills: each cell trains a small network and writes a checkpoint after every step."""

from vadam_paper.experiments.contract import Experiment

EXPERIMENT = Experiment("trained", "torture", "A training that is killed", "torture.trained", protocols=("text",))
