"""A watch on ``batch_size``: it warns when an attached model sees another number of examples in a step."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves
from torch.utils.weak import TensorWeakRef

PATIENCE = 3
"""Steps in a row with the same wrong number before the warning; the last minibatch of an epoch may be smaller."""


def batch_size_of(groups: Sequence[dict[str, Any]]) -> float | None:
    """Return the first ``batch_size`` of an optimizer's groups; None if there is none."""
    return next((group["batch_size"] for group in groups if group.get("batch_size")), None)


class BatchSizeWatch:
    """Counts the examples of the training-mode forward passes between two steps, on all ranks, and compares them with ``batch_size``.

    Several forward passes before one backward pass, as of a siamese network, do not say what an example is: then nothing is compared.
    """

    def __init__(self, samples: int = 1, ranks: int = 1) -> None:
        self._samples, self._ranks = samples, ranks
        self._shapes: list[torch.Size] = []  # of the first input of each forward pass since the last step
        self._gradient: TensorWeakRef | None = None  # that arrived since the last of them
        self._shares_backward = False  # True if two of them had no gradient between them
        self._wrong: list[int] = []
        self._is_done = False

    @torch._disable_dynamo
    def before_forward(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Note the shape of the first input; a forward pre-hook."""
        if not self._is_done and module.training and torch.is_grad_enabled():
            gradient, self._gradient = self._gradient, None
            if gradient is None:
                self._shares_backward = bool(self._shapes)
            elif self._samples == 1 and gradient() is None:  # cleared after a step of another optimizer
                self._shapes = []
            shapes = (x.shape for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor) and x.dim())
            self._shapes += [next(shapes, torch.Size([0]))]

    def after_gradient(self, p: Tensor) -> None:
        """Note that a gradient has arrived; a hook of one parameter."""
        self._gradient = None if p.grad is None else TensorWeakRef(p.grad)

    def after_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Compare the number of examples with ``batch_size``; a post-hook of ``step``. The examples may be the first or second axis."""
        shapes, self._shapes = self._shapes, []
        shares_backward, self._shares_backward = self._shares_backward, False
        batch_size = batch_size_of(optimizer.param_groups)
        if self._is_done or batch_size is None or shares_backward or not shapes or len(shapes) % self._samples:
            return
        totals = {self._examples(shapes, axis) for axis in (0, 1) if all(len(shape) > axis for shape in shapes)}
        found = self._examples(shapes, 0)
        self._wrong = [] if batch_size in totals else [*self._wrong, found]
        if len(self._wrong) >= PATIENCE and len({*self._wrong[-PATIENCE:]}) == 1:
            passes = len(shapes) // self._samples
            where = f"{passes} forward passes of {shapes[0][0]} examples" if passes > 1 else f"{shapes[0][0]} examples"
            ranks = f" on each of {self._ranks} ranks" if self._ranks > 1 else ""
            warnings.warn(
                f"batch_size={batch_size!r}, but a step sees {where}{ranks}: pass batch_size={found}, the number of examples "
                f"of the whole step, or the variances are wrong by the ratio",
                stacklevel=3,
            )
            self._is_done = True

    def _examples(self, shapes: list[torch.Size], axis: int) -> int:
        return sum(shape[axis] for shape in shapes) // self._samples * self._ranks

    def __reduce__(self) -> tuple[type[BatchSizeWatch], tuple[()]]:
        """Return a watch that does nothing: a copied model is not attached."""
        return BatchSizeWatch, ()
