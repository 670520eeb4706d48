"""The block in which the parameters hold one sample."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vadam.interrupts import Uninterrupted
from vadam.optim.sample import Owner

if TYPE_CHECKING:
    from vadam.optim.base import VariationalOptimizer


class Block:
    """A marker that lives as long as a block: once it is gone, the block has been left."""


@contextmanager
def sampled_params(optimizer: VariationalOptimizer) -> Iterator[None]:
    """Open a sample for the block and end it behind it.

    A generator waits inside its ``try``, so that an interruption at any line of the block's end still drops the sample.
    """
    optimizer._heal()
    owner = optimizer._weights.owner
    if owner is not None:
        way_out = (
            "call opt.step() or opt.eval() first" if owner is Owner.LOOP else "leave it first, samples cannot be nested"
        )
        raise RuntimeError(f"the parameters already hold a sample, opened by {owner.value}: {way_out}")
    block = Block()
    optimizer._holder = weakref.ref(block)
    try:
        with Uninterrupted():
            optimizer._open_sample(Owner.CONTEXT)
        yield
        with Uninterrupted():
            optimizer._close_sample()
    except BaseException:
        optimizer._drop_sample()
        raise
