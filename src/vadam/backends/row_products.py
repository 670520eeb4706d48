"""Rows times the draws of a matrix, at native speed: float32 on the CPU, torch's operators elsewhere."""

from __future__ import annotations

import torch
from torch import Tensor

from vadam import backends


def rows_times_matrices(x: Tensor, weight: Tensor) -> Tensor:
    """Return xₛ Wₛᵀ, [n, 1, o], of rows x [n, 1, i] or, shared by all, [1, 1, i] and matrices W [n, o, i]."""
    fits = all(t.is_cpu and t.dtype is torch.float32 for t in (x, weight)) and weight.is_contiguous()
    if not fits or not backends.has_native():
        return torch.bmm(x.expand(len(weight), -1, -1), weight.mT)
    from vadam.backends.native_product import stacked_product

    return stacked_product(weight, x[:, 0]).unsqueeze(1)
