"""The hook by which an attached model tells its optimizer that a forward pass begins."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from vadam.optim.distributed import replicas_of, unwrapped

if TYPE_CHECKING:
    from vadam.optim.base import VariationalOptimizer


class ForwardHook:
    """Knows the optimizer weakly; a copied or unpickled model carries a hook that knows none and does nothing."""

    def __init__(self, optimizer: VariationalOptimizer | None = None) -> None:
        self._optimizer = (lambda: None) if optimizer is None else weakref.ref(optimizer)

    @torch._dynamo.disable
    def __call__(self, module: nn.Module, args: Any) -> None:
        optimizer = self._optimizer()
        if optimizer is not None:
            optimizer._before_forward(module.training)

    def __reduce__(self) -> tuple[type[ForwardHook], tuple[()]]:
        return ForwardHook, ()


class BackwardHook:
    """Tells the optimizer when a backward pass has ended: the first gradient that arrives asks the engine to call at its end."""

    def __init__(self, optimizer: VariationalOptimizer) -> None:
        self._optimizer = weakref.ref(optimizer)
        self._asked = False

    def __call__(self, p: Tensor) -> None:
        if not self._asked:
            self._asked = True
            _at_the_end(lambda: _at_the_end(self._ended))  # after DDP's own callback, which finishes its averages

    def _ended(self) -> None:
        self._asked = False
        optimizer = self._optimizer()
        if optimizer is not None:
            optimizer._after_backward()


def _at_the_end(callback: Callable[[], None]) -> None:
    torch.autograd.Variable._execution_engine.queue_callback(callback)


class Attachment:
    def __init__(self, optimizer: VariationalOptimizer, model: nn.Module) -> None:
        self.names = {id(p): name for name, p in unwrapped(model).named_parameters()}
        self.replicas = replicas_of(model)
        # Before all other hooks: FSDP2's collects the weights for the forward pass.
        self._handles = [model.register_forward_pre_hook(ForwardHook(optimizer), prepend=True)]
        if optimizer.samples > 1 or optimizer.records_curvature:
            ended = BackwardHook(optimizer)
            for _, p in optimizer._sampled():
                self._handles.append(p.register_post_accumulate_grad_hook(ended))

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
