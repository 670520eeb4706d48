"""The block in which the parameters hold one sample."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import torch

from vadam.optim.sample import Owner

if TYPE_CHECKING:
    from vadam.optim.base import VariationalOptimizer


class SampledParams:
    """The block of ``sampled_params()``. If its end is interrupted, the optimizer drops the sample once the block is gone."""

    def __init__(self, optimizer: VariationalOptimizer) -> None:
        self._optimizer = optimizer

    @torch._disable_dynamo
    def __enter__(self) -> None:
        optimizer = self._optimizer
        optimizer._heal()
        owner = optimizer._weights.owner
        if owner is not None:
            way_out = "call opt.step() or opt.eval() first" if owner is Owner.LOOP else "samples cannot be nested"
            raise RuntimeError(f"the parameters already hold a sample, opened by {owner.value}: {way_out}")
        optimizer._holder = weakref.ref(self)
        try:
            optimizer._open_sample(Owner.CONTEXT)
        except BaseException:
            optimizer._drop_sample()
            raise

    @torch._disable_dynamo
    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        optimizer = self._optimizer
        try:
            if kind is None:
                optimizer._close_sample()
        except BaseException:
            optimizer._drop_sample()
            raise
        if kind is not None:
            optimizer._drop_sample()

    def __del__(self) -> None:
        optimizer = getattr(self, "_optimizer", None)  # None if __init__ was interrupted
        if optimizer is not None and optimizer._holder is not None and optimizer._holder() is None:
            optimizer._heal()
