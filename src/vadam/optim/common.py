"""Arguments that the optimizers of the family share: of the data and the prior, which groups may set, and of the whole optimizer."""

from __future__ import annotations

from typing import TypedDict

import torch

from vadam.gaussian import MeanFieldGaussian


class Common(TypedDict, total=False):
    """See ``vadam.Vadam`` for what they mean."""

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
