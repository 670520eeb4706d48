"""Gradients that arrive while a sample is paused: they were taken at the mean, and belong to no sample."""

from __future__ import annotations

import weakref
from typing import Any

from torch import Tensor
from torch.utils.weak import TensorWeakRef


class Strays:
    """Remembers, weakly, the gradients that arrive at some parameters while it watches them."""

    def __init__(self, params: list[Tensor]) -> None:
        self._params = params
        self._found: list[TensorWeakRef] = []
        self._hooks: list[Any] = []

    def watch(self) -> None:
        """Remember gradients that arrive from now on."""
        known = weakref.ref(self)

        def remember(p: Tensor) -> None:
            strays = known()
            if strays is not None and p.grad is not None:
                strays._found.append(TensorWeakRef(p.grad))

        watched = [p for p in self._params if p.requires_grad and p.is_leaf]
        self._hooks = [p.register_post_accumulate_grad_hook(remember) for p in watched]

    def stop(self) -> None:
        """Watch no longer."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def refuse(self) -> None:
        """Raise if one of the gradients has not been cleared since."""
        found = {id(g) for stray in self._found if (g := stray()) is not None}
        if any(p.grad is not None and id(p.grad) in found for p in self._params):
            raise RuntimeError(
                "a backward pass ran while the parameters held the mean, between eval() or an eval-mode forward pass and the next "
                "training-mode forward pass: a gradient belongs to the sample. Call backward() before evaluating, and "
                "opt.zero_grad() to give this step up"
            )
