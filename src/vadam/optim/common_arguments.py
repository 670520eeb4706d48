"""Arguments that all optimizers share: those of the data and the prior, which a group may set, and those of the whole optimizer."""

from __future__ import annotations

from typing import TypedDict

import torch

from vadam.gaussian import MeanFieldGaussian


class CommonArguments(TypedDict, total=False):
    """The types of the common arguments; ``vadam.Vadam`` describes them."""

    data_weight: float
    temperature: float
    prior: float | str | MeanFieldGaussian
    learn_prior_every: int
    samples: int
    antithetic: bool
    generator: torch.Generator | None
    nonfinite: str
    backend: str
    store_mean: bool
