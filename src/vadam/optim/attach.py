"""The hooks by which an attached model tells its optimizer what happens to it."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.utils._pytree import tree_leaves

from vadam.optim.distributed import replicas_of, unwrapped

if TYPE_CHECKING:
    from vadam.optim.base import VariationalOptimizer


class Hook:
    """Calls ``react(optimizer, module)``. Knows the optimizer weakly; a copied or unpickled model carries a hook that does nothing."""

    def __init__(self, optimizer: VariationalOptimizer | None = None, react: Callable[..., None] | None = None) -> None:
        self._optimizer = (lambda: None) if optimizer is None else weakref.ref(optimizer)
        self._react = react

    @torch._disable_dynamo
    def __call__(self, module: nn.Module, *args: Any) -> None:
        optimizer = self._optimizer()
        if optimizer is not None and self._react is not None:
            self._react(optimizer, module)

    def __reduce__(self) -> tuple[type[Hook], tuple[()]]:
        return Hook, ()


class BackwardHook:
    """Tells the optimizer when a backward pass has ended: the first gradient that arrives asks the engine to call at its end.

    Reentrant checkpointing runs backward passes inside the backward pass, and the gradients of parameters arrive in those. They end
    nothing. The gradients of the model's outputs arrive in the outer one.
    """

    def __init__(self, optimizer: VariationalOptimizer) -> None:
        self._optimizer = weakref.ref(optimizer)
        self._asked_in = -1

    def __call__(self, _: Tensor) -> None:
        task = torch._C._current_graph_task_id()
        if self._asked_in != task:
            self._asked_in = task
            _at_the_end(lambda: _at_the_end(self._ended))  # after DDP's own callback, which finishes its averages

    def _ended(self) -> None:
        optimizer = self._optimizer()
        if optimizer is not None and not _inside_another_backward():
            optimizer._after_backward()


class OutputHook(Hook):
    """Lets ``ended`` see the gradients of a model's outputs."""

    def __init__(self, ended: BackwardHook | None = None) -> None:
        super().__init__()
        self._ended = ended

    @torch._disable_dynamo
    def __call__(self, module: nn.Module, *args: Any) -> None:
        for x in tree_leaves(args[-1]) if self._ended is not None else ():
            if isinstance(x, Tensor) and x.requires_grad:
                x.register_hook(self._ended)

    def __reduce__(self) -> tuple[type[Hook], tuple[()]]:
        return OutputHook, ()


def _inside_another_backward() -> bool:
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code is BackwardCFunction.apply.__code__:
            return True
        frame = frame.f_back
    return False


def in_backward() -> bool:
    """Return True while the engine is in a backward pass."""
    return torch._C._current_graph_task_id() != -1


def _at_the_end(callback: Callable[[], None]) -> None:
    torch.autograd.Variable._execution_engine.queue_callback(callback)


class Attachment:
    """The hooks on one model; they go when the optimizer goes."""

    def __init__(self, optimizer: VariationalOptimizer, model: nn.Module) -> None:
        self._model = weakref.ref(unwrapped(model))
        self.replicas = replicas_of(model)
        before_forward = Hook(optimizer, lambda opt, module: opt._before_forward(module))
        to_mean = Hook(optimizer, lambda opt, module: opt.eval())
        handles: list[Any] = [
            model.register_forward_pre_hook(before_forward, prepend=True),  # FSDP2's own collects the weights
            model.register_state_dict_pre_hook(to_mean),  # what is saved is the mean
            model.register_load_state_dict_pre_hook(to_mean),
        ]
        if optimizer.samples > 1 or optimizer.records_curvature:
            ended = BackwardHook(optimizer)
            handles.append(model.register_forward_hook(OutputHook(ended)))
            handles += [p.register_post_accumulate_grad_hook(ended) for p in optimizer._sampled()]
        self._finalizer = weakref.finalize(optimizer, _remove, handles)
        self._finalizer.atexit = False

    def names(self) -> dict[Tensor, str]:
        """Return the names of the model's parameters."""
        model = self._model()
        return {} if model is None else {p: name for name, p in model.named_parameters()}

    def remove(self) -> None:
        """Take the hooks off the model."""
        self._finalizer()


def _remove(handles: list[Any]) -> None:
    for handle in handles:
        handle.remove()
