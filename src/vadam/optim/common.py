"""Arguments that every optimizer of the family takes, once for all of its groups."""

from __future__ import annotations

from typing import TypedDict

import torch


class Common(TypedDict, total=False):
    """See ``vadam.Vadam`` for what they mean."""

    samples: int
    antithetic: bool
    generator: torch.Generator | None
    nonfinite: str
    backend: str
    store_mean: bool
