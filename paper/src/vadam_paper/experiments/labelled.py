"""Inputs with their classes: the training, validation or test part of a data set."""

from typing import NamedTuple

from torch import Tensor


class Labelled(NamedTuple):
    X: Tensor
    y: Tensor
