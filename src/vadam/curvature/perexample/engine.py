"""``PerExampleSquares``: hooks that turn an ordinary backward pass into mean_i (∇f_i)².

A forward hook on every layer records its input. A hook on the layer's output receives the gradient there. A hook on
each parameter runs when the backward pass has accumulated the parameter's gradient, and computes the squares; by
then all uses of the parameter have reported.

The hooks live in the model. They refer to the engine weakly and to layers and parameters by number, so that neither
the model nor the engine is part of a reference cycle.
"""

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Size, Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree as pytree
from torch.utils.hooks import RemovableHandle

from vadam.curvature.perexample.call import (
    WAY_OUT,
    Call,
    Layer,
    detached,
    floating,
    full_precision,
    is_rounded,
    mixes_examples,
)
from vadam.curvature.perexample.closed_forms import looks_up_positions
from vadam.curvature.perexample.fused import fuse
from vadam.curvature.perexample.gradients import Gradients, summed
from vadam.curvature.perexample.layers import layers_of
from vadam.curvature.perexample.replay import random_state

BATCH_NORMS = (nn.modules.batchnorm._BatchNorm,)
DROPPING_OUT = (nn.RNNBase, nn.MultiheadAttention)  # layers whose replay must repeat the original dropout
ACCOUNTED = 0.02  # relative tolerance: far above the rounding of half precision, far below a second use of a parameter


class WeakHook:
    """Call a method of the engine from inside the model without keeping the engine alive. A copy does nothing."""

    def __init__(self, method: Callable | None = None, *first: Any):
        self._method = weakref.WeakMethod(method) if method else lambda: None
        self._first = first

    def __call__(self, *args: Any) -> Any:
        method = self._method()
        return None if method is None else method(*self._first, *args)

    def __deepcopy__(self, memo: dict) -> "WeakHook":
        return WeakHook()

    def __reduce__(self) -> tuple:
        return WeakHook, ()


@dataclass(eq=False)
class FollowedParam:
    """A parameter and what was recorded of it since the last ``take``."""

    param: nn.Parameter
    name: str
    siblings: tuple[int, ...] = ()  # parameters whose gradients are computed whenever this one's is
    audit_hook: RemovableHandle | None = None  # until the layers have once accounted for the gradient
    full_grad: Tensor | None = None  # the gradient that the audit compares with
    calls: dict[Call, None] = field(default_factory=dict)  # calls whose output gradient has arrived
    squares: Tensor | None = None
    last_pass: int = -1
    grad_version: int = -1  # of the gradient, when its squares were computed
    done_in: int = -1  # the backward pass in which a sibling has computed the squares of this one too

    def needs_audit(self) -> bool:
        """Return True until the gradient was checked. On an accelerator the check would wait for the device."""
        return self.audit_hook is not None and self.param.device.type == "cpu"

    def reset(self) -> None:
        self.squares, self.last_pass, self.grad_version = None, -1, -1


class PerExampleSquares:
    """Compute ĥ = mean_i (∇f_i)² for the parameters of ``model`` during ordinary training.

        engine = PerExampleSquares(model)
        loss_fn(model(x), y).backward()     # the mean over the minibatch
        h = engine.take()                   # {parameter: ĥ}

    The loss must be the mean over the minibatch of one loss fᵢ per example. Several backward passes before one
    ``take`` are the micro-batches of one minibatch (gradient accumulation), each loss being divided by their number
    K: with cᵢ the contribution of example i to the gradient and M_k the size of micro-batch k, ∇fᵢ = K M_k cᵢ and
    ĥ = K² Σ_k M_k² Σᵢ cᵢ² / Σ_k M_k.

    The engine follows ``params`` (default: all that require a gradient) without ``exclude``. A parameter may be used
    several times and by several layers, but only through the ``forward`` of a layer that owns it. On the CPU the first
    backward pass checks that the layers account for the whole gradient.

    Examples lie on the first axis of every layer's input. They lie on the second, in inputs [T, B, ...], inside
    torch's transformers and recurrent layers with ``batch_first=False``, and in all layers with
    ``sequence_first=True``. A model that mixes both kinds must pass ``sequence_first`` for the remaining layers.
    A tensor looked up once for all examples, such as positions, has no gradient per example: expand it to all of
    them before the layer.

    Weights may change in place between backward passes. A forward pass without gradients, or while ``recording`` is
    False, leaves no trace. A copied or unpickled model does not report to the engine. When the engine is garbage
    collected, its hooks leave the model, as after ``remove``.

    Nothing is read from an accelerator, except if every gradient was changed in place between two micro-batches: then
    the values tell whether the gradients were cleared. Checks that need values run on the CPU only.
    """

    def __init__(
        self,
        model: nn.Module,
        params: Iterable[nn.Parameter] | None = None,
        exclude: Iterable[nn.Parameter] = (),
        *,
        sequence_first: bool | None = None,
    ):
        self.recording = True
        self._passes: dict[int, tuple[int, Layer]] = {}  # backward pass → number of examples, and the layer that saw it
        self._checked_pass = -1  # the last backward pass that looked for cleared gradients
        self._handles: list[RemovableHandle] = []
        weakref.finalize(self, _remove_hooks, self._handles).atexit = False
        excluded = set(exclude)
        self._followed = _followed(model, params, excluded)
        numbers = {one.param: number for number, one in enumerate(self._followed)}
        self._layers = list(layers_of(model, numbers.keys(), sequence_first))
        for i, layer in enumerate(self._layers):
            layer.followed = [numbers[p] for p in dict.fromkeys(layer.params.values())]
            if isinstance(layer.module, DROPPING_OUT):
                self._handles.append(layer.module.register_forward_pre_hook(WeakHook(self._before_forward, i)))
            # Prepended: the hook must see the output before other hooks change it.
            hook = WeakHook(self._after_forward, i)
            handle = layer.module.register_forward_hook(hook, with_kwargs=True, prepend=True)
            layer.hook_id = handle.id
            self._handles.append(handle)
        self._link_siblings()
        for name, module in model.named_modules():
            if isinstance(module, BATCH_NORMS) and not set(module.parameters()) & {*numbers, *excluded}:
                self._handles.append(module.register_forward_hook(WeakHook(self._reject_batch_norm, name)))
        for number, one in enumerate(self._followed):
            accumulated = WeakHook(self._after_accumulation, number)
            one.audit_hook = one.param.register_hook(WeakHook(self._before_accumulation, number))
            self._handles += [one.param.register_post_accumulate_grad_hook(accumulated), one.audit_hook]

    def take(self) -> dict[nn.Parameter, Tensor]:
        """Return ĥ of every parameter that got a gradient since the last ``take`` or ``discard``, and reset."""
        sizes = [size for size, _ in self._passes.values()]
        taken = {one.param: one.squares for one in self._followed if one.squares is not None}
        if taken and sum(sizes):
            torch._foreach_mul_(list(taken.values()), (len(sizes) * max(1, sizes[0])) ** 2 / sum(sizes))
        self.discard()
        return taken

    def discard(self) -> None:
        """Drop what was collected, as after a forward or backward pass that failed."""
        self._reset_passes()
        for one in self._followed:
            one.calls, one.full_grad, one.done_in = {}, None, -1

    def remove(self) -> None:
        """Remove the hooks from the model."""
        _remove_hooks(self._handles)
        for one in self._followed:
            one.audit_hook = None
        self.discard()

    # The hooks, in the order in which they run: around a layer, at its output in the backward pass, at a parameter.

    def _before_forward(self, number: int, module: Any, args: tuple) -> None:
        draws = self.recording and torch.is_grad_enabled() and module.training and module.dropout > 0
        self._layers[number].random_state = random_state(args) if draws else None

    def _after_forward(self, number: int, module: nn.Module, args: tuple, kwargs: dict[str, Any], output: Any) -> Any:
        if not (self.recording and torch.is_grad_enabled()):
            return None
        layer = self._layers[number]
        if any(isinstance(x, PackedSequence) for x in args):
            raise ValueError(
                f"{layer} was called with a PackedSequence: pad the sequences and mask the loss, {WAY_OUT}"
            )
        outputs = floating(output)
        if any(torch._C._functorch.is_functorch_wrapped_tensor(y) for y in outputs):
            return None
        task = torch._C._current_graph_task_id()
        if task == -1:  # outside a backward pass: earlier passes are over, and their leftovers reached no parameter
            for i in layer.followed:
                self._followed[i].calls.clear()
        call = Call(
            layer,
            *detached(args, kwargs),
            outputs=[y.detach() for y in outputs] if layer.replays else (),
            num_outputs=len(outputs),
            random_state=layer.random_state,
            is_rounded=layer.replays and is_rounded(outputs),
            forward_task=task,
        )
        layer.random_state = None
        fused = fuse(call, args, output, partial(self._on_grads_of_fused_layer, call))
        if fused is not None:
            return fused
        if len(outputs) > 1:  # an output may depend on another: hooks on clones see the gradients from outside only
            output = pytree.tree_map_only(Tensor, Tensor.clone, output)
            outputs = floating(output)
        for index, y in enumerate(outputs):
            if y.requires_grad:
                surviving_changes_in_place(y).register_hook(partial(self._on_output_grad, call, index, y.shape))
        return output

    def _reject_batch_norm(self, name: str, module: Any, _: tuple, __: Any) -> None:
        if self.recording and torch.is_grad_enabled() and (module.training or module.running_mean is None):
            raise ValueError(mixes_examples(f"{type(module).__name__} {name!r}"))

    def _on_output_grad(self, call: Call, output: int, shape: Size, grad: Tensor) -> None:
        if not self.recording:
            return
        if torch.is_grad_enabled():
            raise RuntimeError(
                "there are no per-example squares under create_graph=True: set engine.recording = False around it"
            )
        if call.is_released:
            raise RuntimeError("backward() ran through one graph a second time: add the losses up and call it once")
        task = torch._C._current_graph_task_id()
        if self._checked_pass != task:
            self._checked_pass = task
            if self._gradients_were_cleared():
                self._reset_passes()
        for i in call.layer.followed:
            self._followed[i].calls[call] = None
        call.receive(output, grad if grad.shape == shape else grad.reshape(shape), task)

    def _on_grads_of_fused_layer(self, call: Call, grads: Sequence[Tensor | None]) -> dict[str, Gradients] | None:
        for index, grad in enumerate(grads):
            if grad is not None:
                self._on_output_grad(call, index, grad.shape, grad)
        return call.gradients() if self.recording else None

    def _before_accumulation(self, number: int, grad: Tensor) -> None:
        if self.recording and self._followed[number].needs_audit():
            self._followed[number].full_grad = grad

    def _after_accumulation(self, number: int, p: nn.Parameter) -> None:
        if not self.recording:
            return
        one = self._followed[number]
        task = torch._C._current_graph_task_id()
        if one.done_in != task:
            self.take_squares(one, task)
        one.done_in, one.grad_version = -1, -1 if p.grad is None else p.grad._version

    # What the hooks do.

    def take_squares(self, one: FollowedParam, task: int) -> None:
        """Compute the squares of a parameter and of its siblings."""
        calls, one.calls = [call for call in one.calls if call.task == task], {}
        if not calls:
            raise unaccounted(one)
        siblings = [self._followed[i] for i in one.siblings]
        if any(other.needs_audit() for other in siblings):
            siblings = []  # an audit needs the full gradient, which a sibling may not have yet
        taken = [one, *(other for other in siblings if other.calls and other.param.requires_grad)]
        self.recording = False  # a rule may run its layer again
        try:
            with full_precision(one.param.device.type):
                for other in taken:
                    self._add_squares(other, calls)
        finally:
            self.recording = True
        for other in taken[1:]:
            other.calls, other.done_in, other.grad_version = {}, task, -1
        for call in calls:
            for other in taken:
                call.release(other.param)

    def _add_squares(self, one: FollowedParam, calls: list[Call]) -> None:
        uses = [(call, use) for call in calls for use in call.gradients_of(one.param)]
        if not uses:  # a parameter that was added to the layer, which the layer's rule does not know of
            raise unaccounted(one)
        if len(uses) > 1:
            for call in calls:
                call.layer.is_reused = True
        examples = self._count_examples(one, uses)
        gradients = summed([use for _, use in uses])
        squares = gradients.sum_of_squares()
        if one.needs_audit():
            tolerance = ACCOUNTED * squares.sum().sqrt() + sum(call.rounding() for call in calls)
            audit(one, gradients.total(), tolerance)
        first_size, _ = next(iter(self._passes.values()))
        weight = (examples / max(1, first_size)) ** 2  # ``take`` multiplies by the square of the first size
        if one.squares is not None:
            one.squares.add_(squares, alpha=weight)
        else:
            one.squares = squares if weight == 1 else squares.mul_(weight)

    def _count_examples(self, one: FollowedParam, uses: list[tuple[Call, Gradients]]) -> int:
        """Return the size of this backward pass's minibatch. Raise an error if two layers disagree."""
        call, use = uses[0]
        this_pass = call.task if call.forward_task == -1 else call.forward_task
        if one.last_pass == this_pass:
            raise RuntimeError(
                f"{one.name!r} is shared between checkpointed segments: call checkpoint with use_reentrant=False"
            )
        one.last_pass = this_pass
        size, counted_by = self._passes.setdefault(this_pass, (use.examples, call.layer))
        for call, use in uses:
            if use.examples != size:
                raise ValueError(
                    f"{call.layer} saw {use.examples} examples, {counted_by} saw {size} in the same backward pass. Every "
                    "layer must see the examples on the first axis of its input (on the second, if sequence_first=True): "
                    "flatten [B, T, ...] after the layer rather than before it, expand positional embeddings to all "
                    f"examples, {WAY_OUT}"
                )
            if any(layer.has_positions for layer in self._layers) and looks_up_positions(call):
                raise ValueError(
                    f"{call.layer} was called with 0, 1, ... {size - 1}, and there are {size} examples: are these positions that all "
                    "examples share, or one index for each example? Expand positions to [B, T] before the layer, or give indices "
                    f"of examples as [B, 1], {WAY_OUT}"
                )
        return size

    def _gradients_were_cleared(self) -> bool:
        """Return True if the gradients of the recorded passes were cleared: their minibatch was skipped."""
        recorded = [one for one in self._followed if one.squares is not None]
        grads = [(one.param.grad, one.grad_version) for one in recorded if one.param.grad is not None]
        if any(grad._version == version for grad, version in grads):
            return False
        return bool(recorded) and not any(bool(grad.any()) for grad, _ in grads)

    def _reset_passes(self) -> None:
        """Drop finished passes; keep the calls of the current one."""
        self._passes.clear()
        for one in self._followed:
            one.reset()

    def _link_siblings(self) -> None:
        """Link the parameters of every layer that uses all of them in every call and shares none."""
        owners = Counter(p for layer in self._layers for p in layer.params.values())
        for layer in self._layers:
            if not layer.replays and all(owners[p] == 1 for p in layer.params.values()):
                for i in layer.followed:
                    self._followed[i].siblings = tuple(j for j in layer.followed if j != i)


def _followed(
    model: nn.Module, params: Iterable[nn.Parameter] | None, excluded: set[nn.Parameter]
) -> list[FollowedParam]:
    names = {p: name for name, p in model.named_parameters()}
    given = list(names if params is None else dict.fromkeys(params))
    for p in given:
        if p not in names:
            raise ValueError(
                f"a parameter of shape {tuple(p.shape)} is not part of the model: give the model that owns it"
            )
    return [FollowedParam(p, names[p]) for p in given if p.requires_grad and p not in excluded]


def _remove_hooks(handles: list[RemovableHandle]) -> None:
    for handle in handles:
        handle.remove()
    handles.clear()


def audit(one: FollowedParam, accounted: Tensor, tolerance: Tensor) -> None:
    """Raise RuntimeError unless the layers account for the whole gradient; this runs once for each parameter."""
    assert one.full_grad is not None
    assert one.audit_hook is not None
    full = one.full_grad.to_dense().to(accounted.dtype)
    if not full.isfinite().all():
        return
    if (full - accounted).norm() > ACCOUNTED * full.norm() + tolerance:
        raise unaccounted(one)
    one.audit_hook.remove()
    one.audit_hook, one.full_grad = None, None


def unaccounted(one: FollowedParam) -> RuntimeError:
    """Return the error for a parameter whose gradient does not come from its layer alone."""
    return RuntimeError(
        f"the gradient of {one.name!r} does not (or not only) come from calls of the layer that owns it. Is it "
        "used elsewhere, as in F.linear(x, layer.weight) or in a penalty added to the loss, was the forward pass run "
        "with engine.recording = False or compiled, or a transposed output of the layer changed in place? Use parameters "
        f"through their layers (two layers may share one), leave penalties to prior_precision, {WAY_OUT}"
    )


def surviving_changes_in_place(output: Tensor) -> Tensor:
    """Return the tensor to hook: a change in place drops the hooks of a view, not those of its base."""
    base = output._base
    reshapes = base is not None and base.numel() == output.numel() and base.is_contiguous() and output.is_contiguous()
    return base if reshapes else output  # type: ignore[return-value]
