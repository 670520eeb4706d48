"""An ordinary training loop: the model is attached, and its hooks tell the optimizer when to sample and when to return to the mean."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import is_fake
from torch.autograd.function import BackwardCFunction
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves

from vadam.backends.bucket import Grads
from vadam.interrupts import Uninterrupted
from vadam.optim.batch_size_watch import BatchSizeWatch, batch_size_of
from vadam.optim.checks import refuse_other_sharding
from vadam.optim.distributed import (
    ddp_of,
    inside_replica,
    inside_wrapper,
    mean_over,
    refuse_join,
    refuse_tensor_parallel,
    reshard,
    sharded_modules,
    unwrapped,
)
from vadam.optim.estimate import gradients
from vadam.optim.nonfinite import CheckedOptimizer
from vadam.optim.sample import Owner

if TYPE_CHECKING:
    from vadam.optim.sample import Sample


class Hook:
    """Calls ``react(optimizer, module)``. Knows the optimizer weakly; a copied or unpickled model carries a hook that does nothing."""

    def __init__(self, optimizer: AttachedUse | None = None, react: Callable[..., None] | None = None) -> None:
        self._optimizer = (lambda: None) if optimizer is None else weakref.ref(optimizer)
        self._react = react

    @torch._disable_dynamo
    def __call__(self, module: nn.Module, *args: Any) -> None:
        optimizer = self._optimizer()
        if optimizer is None or self._react is None:
            return
        if torch._C._len_torch_dispatch_stack() and _is_exported(optimizer):
            with _disable_current_modes():  # what would be written to fake tensors is written to the weights
                optimizer.eval()
        elif torch._C._is_tracing():
            with _untraced():
                optimizer.eval()
        elif torch._C._functorch.peek_interpreter_stack() is None:
            self._react(optimizer, module)
        else:  # a forward pass that torch.func transforms: to the optimizer the weights are plain tensors
            with temporarily_clear_interpreter_stack():
                self._react(optimizer, module)

    def __reduce__(self) -> tuple[type[Hook], tuple[()]]:
        optimizer = self._optimizer()
        if optimizer is not None:
            with _disable_current_modes():  # otherwise the copy of fake tensors would take the mean
                optimizer.eval()  # the model is being copied or pickled: the copy holds the mean
        return Hook, ()


@contextmanager
def _untraced() -> Iterator[None]:
    """Keep what happens inside out of the graph that ``torch.jit.trace`` records."""
    state = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch._C._set_tracing_state(state)  # type: ignore[attr-defined]


def _is_exported(optimizer: AttachedUse) -> bool:
    """Return True while fake tensors stand for the weights, as in ``torch.export``: the exported model is that at the mean."""
    return detect_fake_mode() is not None and not any(is_fake(p) for _, p in optimizer._grouped())


class BackwardHook:
    """Tells the optimizer when a backward pass has ended: the first gradient that arrives asks the engine to call at its end.

    Reentrant checkpointing runs backward passes inside the backward pass, and the gradients of parameters arrive in those. They end
    nothing. The gradients of the model's outputs arrive in the outer one.
    """

    def __init__(self, optimizer: AttachedUse) -> None:
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

    def __init__(self, optimizer: AttachedUse, model: nn.Module) -> None:
        self._model = weakref.ref(unwrapped(model))
        self.is_wrapped = unwrapped(model) is not model
        ddp = ddp_of(model)
        self.ddp = None if ddp is None else weakref.ref(ddp)
        self.replicas = None if ddp is None else ddp.process_group
        self._shards = [weakref.ref(module) for module in sharded_modules(model)]
        self._gathered = 0  # the version of the weights that the last forward pass saw
        self.captures = optimizer.records_curvature or (self.replicas is not None and optimizer.curvature_degree == 1)
        before_forward = Hook(optimizer, AttachedUse._before_forward)
        before_save = Hook(optimizer, lambda opt, module: opt._to_mean("model.state_dict()"))
        handles: list[Any] = [
            # Before FSDP2's own hook, which collects the weights.
            model.register_forward_pre_hook(before_forward, prepend=True)
        ]
        inside = inside_wrapper(model)
        if inside is not None:  # a program may evaluate and save it
            before_inside = Hook(optimizer, lambda opt, module: None if module.training else opt.eval())
            handles.append(inside.register_forward_pre_hook(before_inside, prepend=True))
        for module in {model, unwrapped(model)}:
            handles.append(module.register_state_dict_pre_hook(before_save))  # what is saved is the mean
            handles.append(module.register_load_state_dict_pre_hook(Hook(optimizer, AttachedUse._before_load)))
            own = module.__dict__
            own["_parameters"] = own.pop("_parameters")  # behind the hooks: a copy meets them first, and then the mean
        if optimizer.samples > 1 or self.captures:
            ended = BackwardHook(optimizer)
            handles.append(model.register_forward_hook(OutputHook(ended)))
            handles += [p.register_post_accumulate_grad_hook(ended) for p in optimizer._sampled()]
        if batch_size_of(optimizer.param_groups) is not None:
            ranks = 1 if self.replicas is None else dist.get_world_size(self.replicas)
            watch = BatchSizeWatch(optimizer.samples, ranks)
            handles += [p.register_post_accumulate_grad_hook(watch.after_gradient) for p in optimizer._sampled()[-1:]]
            handles.append(model.register_forward_pre_hook(watch.before_forward, with_kwargs=True))
            handles.append(optimizer.register_step_post_hook(watch.after_step))
        self._finalizer = weakref.finalize(optimizer, _remove, handles)
        self._finalizer.atexit = False

    def gather_anew(self, version: int) -> None:
        """Let FSDP2 gather the weights in this forward pass if they were written since the last one; it may keep what it has gathered."""
        for shard in self._shards if version != self._gathered else ():
            if (module := shard()) is not None:
                module.reshard()
        self._gathered = version

    def names(self) -> dict[Tensor, str]:
        """Return the names of the model's parameters."""
        model = self._model()
        if model is None:
            return {}
        reshard(model)
        return {p: name for name, p in model.named_parameters()}

    def remove(self) -> None:
        """Take the hooks off the model."""
        self._finalizer()


def _remove(handles: list[Any]) -> None:
    for handle in handles:
        handle.remove()


class AttachedUse(CheckedOptimizer):
    """An optimizer that perturbs the weights of an attached model, or between ``train()`` and ``eval()``."""

    #: Power of c by which ĥ is multiplied when the gradient is multiplied by c, as by loss scaling or clipping.
    curvature_degree: ClassVar[int] = 2
    #: True if ĥ is recorded during the backward pass, before the gradient is scaled or clipped.
    records_curvature: ClassVar[bool] = False
    #: False if the optimizer must evaluate the loss itself, so that an ordinary loop is not possible.
    has_loop: bool = True

    samples: int
    _attachment: Attachment | None
    _was_cleared: bool  # True if zero_grad() was called since the closure

    if TYPE_CHECKING:

        def _open_sample(self, owner: Owner) -> Sample: ...
        def _close_sample(self, *, restore: bool = True) -> None: ...

    def attach(self, model: nn.Module) -> Self:
        """Make each training-mode forward of ``model`` sample its weights; ``step()`` restores the mean, which eval mode uses.

        A sample lasts from the forward to ``step()``, over several micro-batches if there are some. With ``samples`` S > 1
        each backward pass ends one sample, and S forward and backward passes make a step. Saving the model saves the mean.
        Posteriors and error messages then use the model's parameter names. Returns the optimizer.
        """
        if not isinstance(model, nn.Module):
            raise TypeError(f"attach() takes the nn.Module that is trained, not {type(model).__name__}")
        if isinstance(model, torch.jit.ScriptModule):
            raise TypeError(
                "attach(): a scripted or traced module takes no hooks: attach the module that it was made from, or use step(closure) or "
                "sampled_params()"
            )
        reshard(model)
        owned = set(model.parameters())
        if not any(p in owned for _, p in self._grouped()):
            raise ValueError("attach(): none of the model's parameters belongs to this optimizer")
        if any(p not in owned for p in self._sampled()):
            raise ValueError(
                "attach(): the optimizer also samples parameters that are not the model's, and its forward would say nothing of "
                "them. Attach the module that owns them all (for several, an nn.ModuleList in a module), or use step(closure)"
            )
        self._refuse_rescaled(model)
        refuse_tensor_parallel(model)
        refuse_other_sharding(type(self).__name__, self._sampled())
        if ddp_of(model) is not None and not self.has_loop:
            raise ValueError(
                f"attach(): {type(self).__name__} evaluates the loss itself and averages nothing over ranks: train in one process, "
                f"or use an optimizer that takes its curvature from the gradient, such as Vadam, VOGN, or VON with curvature='reparam'"
            )
        self.detach()
        self._attachment = Attachment(self, model)
        return self

    def _refuse_rescaled(self, model: nn.Module) -> None:
        """Raise if a layer rescales sampled weights in its forward pass: the end of the sample would undo it."""
        sampled = set(self._sampled())
        for name, module in model.named_modules():
            if (
                isinstance(module, nn.Embedding | nn.EmbeddingBag)
                and module.max_norm is not None
                and module.weight in sampled
            ):
                raise ValueError(
                    f"attach(): {type(module).__name__} {name!r} has max_norm={module.max_norm!r} and rescales its weights in the forward "
                    f"pass, which the end of a sample undoes: leave max_norm out (the prior keeps weights small), or put its weight in "
                    f"a group with deterministic=True"
                )

    def detach(self) -> None:
        """Undo ``attach``."""
        self.eval()
        if self._attachment is not None:
            self._attachment.remove()
        self._attachment = None

    def train(self) -> None:
        """Let the parameters hold a sample until ``step()`` or ``eval()``: the one that is open, or a new one."""
        self._heal()
        self._begin_sample()

    def _begin_sample(self) -> None:
        if self._weights.owner is None and self._sampled():
            with Uninterrupted():
                self._open_sample(Owner.LOOP)

    def eval(self) -> None:
        """Let the parameters hold the mean. The sample of an unfinished step comes back with the next ``train()``."""
        self._heal()
        if self._weights.owner is Owner.LOOP:
            self._weights.pause()

    @property
    def holds_sample(self) -> bool:
        """True while the parameters hold a sample; otherwise they hold the mean."""
        self._heal()
        return self._weights.owner is not None

    def _before_forward(self, model: nn.Module) -> None:
        """React to a forward pass of the attached model."""
        self._choose_weights(model)
        if self._attachment is not None and not in_backward():
            self._attachment.gather_anew(self._weights.version)

    def _choose_weights(self, model: nn.Module) -> None:
        """Let the parameters hold what a forward pass of the attached model must see: a sample in training mode, otherwise the mean."""
        attachment = self._attachment
        # Lightning leaves DistributedDataParallel in evaluation mode after a validation.
        is_wrapped = attachment is not None and attachment.is_wrapped
        weights, training = self._weights, (unwrapped(model) if is_wrapped else model).training
        averages = self.records_curvature or self.curvature_degree == 1
        if attachment is not None and attachment.ddp is not None:
            refuse_join(attachment.ddp())
        elif averages and training and attachment is not None and inside_replica():
            raise RuntimeError(
                f"{type(self).__name__} averages its curvature over the ranks, but was attached to the module inside "
                f"DistributedDataParallel: call opt.attach(model) with the DistributedDataParallel module itself"
            )
        self._heal()
        if weights.owner in (Owner.CONTEXT, Owner.CLOSURE):
            return
        if in_backward():  # a checkpointed forward pass runs again, and must see the weights that it saw
            if training and weights.owner is None and torch.is_grad_enabled() and self.has_loop:
                raise RuntimeError(
                    "activation checkpointing of the whole attached model with use_reentrant=True runs its first pass without "
                    "gradients, at the mean, and its second at a sample: pass use_reentrant=False, or checkpoint its layers"
                )
            return
        if not training:
            self.eval()
        elif torch.is_grad_enabled() and self.has_loop:
            for unfinished in (weights.sample, weights.paused):
                frozen_since = unfinished is not None and set(unfinished.params) != set(self._sampled())
                if frozen_since and not unfinished.has_new_gradient():  # type: ignore[union-attr]
                    self._reset_step()
            self._begin_sample()

    def _before_load(self, model: nn.Module) -> None:
        """React to weights that are about to be loaded: a sample of those before ends, unless it has a gradient for ``step()``."""
        self._to_mean("model.load_state_dict()")
        paused = self._weights.paused
        if paused is not None and not paused.has_new_gradient():
            self._reset_step()

    def _after_backward(self) -> None:
        """React to the end of a backward pass of the attached model: with several samples, the sample has ended too."""
        if self._weights.sample is None:
            return
        with Uninterrupted():
            if self._attachment is not None and self._attachment.captures:  # ĥ belongs to the gradient as it is now
                (self._weights.sample.norms,) = self._norms(gradients(self._trained()))
            ends = self.samples > 1 and self._weights.owner is Owner.LOOP
            if ends and self._weights.sample.has_new_gradient():  # not if torch.autograd.grad asked for others
                self._close_sample()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients. Outside a sample this also drops the samples of a step that was never taken."""
        self._heal()
        if self._weights.owner is None:
            self._reset_step()
        self._was_cleared = True
        super().zero_grad(set_to_none)

    def _over_ranks(self, captured: Grads | None) -> Grads | None:
        """Return the mean of what each rank has recorded, where the attached model is replicated."""
        if captured is None or self._attachment is None or self._attachment.replicas is None:
            return captured
        means = mean_over(self._attachment.replicas, self._sampled(), captured)
        return {p: mean for p, mean in means.items() if p.grad is not None}  # without those that no rank has used
