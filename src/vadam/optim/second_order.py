"""Optimizers that differentiate the loss twice: the closure returns the loss, and they take gradient and curvature from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from vadam.backends.bucket import Grads
from vadam.curvature.second_order import explain_graph_errors
from vadam.optim.base import Closure, VariationalOptimizer
from vadam.optim.estimate import gradients
from vadam.optim.sample import Sample


class SecondOrder(VariationalOptimizer):
    """An optimizer that takes gradient and curvature from the loss that a closure returns.

    Where ``has_loop`` is False it needs the loss itself, so that only ``step(closure)`` is possible.
    """

    _recorded: Grads | None = None

    def _differentiate(self, loss: Tensor, params: list[Tensor]) -> tuple[Sequence[Tensor], Grads]:
        """Return the gradient of the loss, and its curvature by parameter."""
        raise NotImplementedError

    def _step_from_grads(self) -> None:
        if self.has_loop:
            super()._step_from_grads()
        elif not self._is_checkpoint_probe(gradients(self._trained())):
            raise RuntimeError(f"{self._described()} needs step(closure): the optimizer evaluates the loss itself")

    def _described(self) -> str:
        return type(self).__name__

    def _evaluate(self, closure: Closure) -> Any:
        loss = super()._evaluate(closure)
        if self.has_loop:
            return loss
        if not isinstance(loss, Tensor) or not loss.requires_grad:
            raise TypeError(
                f"with {self._described()} the closure returns the loss as a tensor and does not call backward()"
            )
        trained = self._trained()
        with explain_graph_errors():
            first = torch.autograd.grad(loss, trained, retain_graph=True, allow_unused=True)
        for p, g in zip(trained, first, strict=True):
            p.grad = g
        sampled = [p for p in self._sampled() if p.grad is not None]
        if sampled:
            grads, self._recorded = self._differentiate(loss, sampled)
            for p, g in zip(sampled, grads, strict=True):
                p.grad = g
        return loss

    def _captured(self, sample: Sample) -> Grads | None:
        recorded, self._recorded = self._recorded, None
        return super()._captured(sample) if recorded is None else recorded
