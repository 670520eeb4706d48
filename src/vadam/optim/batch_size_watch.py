"""A watch on ``batch_size``: it warns when an attached model sees another number of examples in a step."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

PATIENCE = 3
"""Steps in a row with the same wrong number before the warning; the last minibatch of an epoch may be smaller."""


class BatchSizeWatch:
    """Counts the examples of the training-mode forward passes between two steps, on all ranks, and compares them with ``batch_size``."""

    def __init__(self, batch_size: float | None = None, samples: int = 1, ranks: int = 1) -> None:
        self._batch_size, self._samples, self._ranks = batch_size, samples, ranks
        self._shapes: list[torch.Size] = []  # of the first input of each forward pass since the last step
        self._wrong: list[int] = []

    @torch._disable_dynamo
    def before_forward(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Note the shape of the first input; a forward pre-hook."""
        if self._batch_size is not None and module.training and torch.is_grad_enabled():
            shapes = (x.shape for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor) and x.dim())
            self._shapes += [next(shapes, torch.Size([0]))]

    def after_step(self, *_: Any) -> None:
        """Compare the number of examples with ``batch_size``; a post-hook of ``step``. The examples may be the first or second axis."""
        shapes, self._shapes = self._shapes, []
        if self._batch_size is None or not shapes or len(shapes) % self._samples:
            return
        totals = {self._examples(shapes, axis) for axis in (0, 1) if all(len(shape) > axis for shape in shapes)}
        found = self._examples(shapes, 0)
        self._wrong = [] if self._batch_size in totals else [*self._wrong, found]
        if len(self._wrong) >= PATIENCE and len({*self._wrong[-PATIENCE:]}) == 1:
            passes = len(shapes) // self._samples
            where = f"{passes} forward passes of {shapes[0][0]} examples" if passes > 1 else f"{shapes[0][0]} examples"
            ranks = f" on each of {self._ranks} ranks" if self._ranks > 1 else ""
            warnings.warn(
                f"batch_size={self._batch_size!r}, but a step sees {where}{ranks}: pass batch_size={found}, the number of examples "
                f"of the whole step, or the variances are wrong by the ratio",
                stacklevel=3,
            )
            self._batch_size = None

    def _examples(self, shapes: list[torch.Size], axis: int) -> int:
        return sum(shape[axis] for shape in shapes) // self._samples * self._ranks

    def __reduce__(self) -> tuple[type[BatchSizeWatch], tuple[()]]:
        """Return a watch that does nothing: a copied model is not attached."""
        return BatchSizeWatch, ()
