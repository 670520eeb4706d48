"""``PerExampleSquares``: the hooks that turn an ordinary backward pass into mean_i (∇f_i)².

A forward hook on every layer notes its input, a hook on its output receives the gradient there, and a hook on each
parameter, called when the backward pass has added up the parameter's gradient, takes the squares: by then all uses of
the parameter have reported.
"""

import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Size, Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree as pytree

from vadam.curvature.perexample import one_visit
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
from vadam.curvature.perexample.gradients import Gradients, summed
from vadam.curvature.perexample.layers import layers_of
from vadam.curvature.perexample.replay import random_state

BATCH_NORMS = (nn.modules.batchnorm._BatchNorm,)
DROPPING_OUT = (nn.RNNBase, nn.MultiheadAttention)  # what is replayed may have to draw again what it drew
ACCOUNTED = 0.02  # relative: far above the rounding of half precision, far below a second use of a parameter


class Hook:
    """Calls a method of the engine from inside the model without keeping the engine alive. A copy does nothing."""

    def __init__(self, method: Callable | None = None, *first: Any):
        self._method = weakref.WeakMethod(method) if method else lambda: None
        self._first = first

    def __call__(self, *args: Any) -> Any:
        method = self._method()
        return None if method is None else method(*self._first, *args)

    def __deepcopy__(self, memo: dict) -> "Hook":
        return Hook()

    def __reduce__(self) -> tuple:
        return Hook, ()


@dataclass(eq=False, slots=True)
class Followed:
    """A parameter, and what has been seen of it since the last ``take``."""

    param: nn.Parameter
    name: str
    together: list["Followed"] = field(default_factory=list)  # those that have their gradient when this one has
    audit: Any = None  # until the layers have once accounted for its gradient: the hook that sees it
    whole: Tensor | None = None  # the gradient that is to be accounted for
    calls: dict[Call, None] = field(default_factory=dict)  # whose output gradient has arrived
    squares: Tensor | None = None
    last_pass: int = -1
    left: int = -1  # how often its gradient had been written to when its squares were taken
    ahead: int = -1  # the pass in which another parameter of its layer has taken its squares too

    def was_cleared(self) -> bool:
        """Whether the gradient whose squares are here is gone: somebody has left its minibatch out."""
        grad = self.param.grad
        return grad is None or (grad._version != self.left and not bool(grad.any()))

    def drop_arrived(self) -> None:
        if self.calls:
            self.calls = {}

    def forget_passes(self) -> None:
        self.squares, self.last_pass, self.left = None, -1, -1


class PerExampleSquares:
    """ĥ = mean_i (∇f_i)² for the parameters of ``model``, out of ordinary training.

        engine = PerExampleSquares(model)
        loss_fn(model(x), y).backward()     # the mean over the minibatch
        h = engine.take()                   # {parameter: ĥ}

    The loss must be the mean over the minibatch of one loss fᵢ per example. Several backward passes before one
    ``take`` are the micro-batches of one minibatch (gradient accumulation), each loss being divided by their number
    K: with cᵢ the contribution of example i to the gradient and M_k the size of micro-batch k, ∇fᵢ = K M_k cᵢ and
    ĥ = K² Σ_k M_k² Σᵢ cᵢ² / Σ_k M_k.

    Followed are ``params`` (default: all that require a gradient) without ``exclude``. A parameter may be used
    several times and by several layers, but only through the ``forward`` of a layer that owns it; the first backward
    pass checks that the layers account for the whole gradient. Examples lie on the first axis of every layer's input;
    on the second, in inputs [T, B, ...], inside torch's transformers and recurrent layers with ``batch_first=False``,
    and in all layers with ``sequence_first=True``; a model that has both kinds says which the others are. Something
    looked up once for all examples, as positions often are, has no gradient per example: expand it to all of them
    before the layer.

    Weights may change in place between backward passes: nothing of them is kept. A forward pass without gradients, or
    while ``recording`` is False, leaves no trace. A copied or unpickled model does not report to the engine.
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
        self._passes: dict[int, tuple[int, Layer]] = {}  # in each backward pass: how many examples, and who counted
        self._looked_in = -1  # the last pass that looked for gradients that had been cleared
        self._handles: list[Any] = []
        excluded = set(exclude)
        followed = _followed(model, params, excluded)
        self._followed = list(followed.values())
        layers = list(layers_of(model, set(followed), sequence_first))
        for layer in layers:
            layer.followed = [followed[p] for p in dict.fromkeys(layer.params.values())]
            if isinstance(layer.module, DROPPING_OUT):
                self._handles.append(layer.module.register_forward_pre_hook(Hook(self._starts, layer)))
            # The first of all hooks sees what the layer has computed.
            hook = layer.module.register_forward_hook(Hook(self._ends, layer), with_kwargs=True, prepend=True)
            layer.hook = hook.id
            self._handles.append(hook)
        _note_what_comes_together(layers)
        for name, module in model.named_modules():
            if isinstance(module, BATCH_NORMS) and not set(module.parameters()) & {*followed, *excluded}:
                self._handles.append(module.register_forward_hook(Hook(self._mixes, name)))
        for i, one in enumerate(self._followed):  # by number: a parameter whose hooks knew it would be freed late
            self._handles.append(one.param.register_post_accumulate_grad_hook(Hook(self._accumulated, i)))
            one.audit = one.param.register_hook(Hook(self._accumulates, i))

    def take(self) -> dict[nn.Parameter, Tensor]:
        """ĥ of every parameter that took part since the last ``take`` or ``discard``, and a fresh start."""
        sizes = [size for size, _ in self._passes.values()]
        correction = len(sizes) ** 2 * max(1, sizes[0]) / sum(sizes) if sum(sizes) else 1.0
        taken = {one.param: one.squares for one in self._followed if one.squares is not None}
        if correction != 1:
            for squares in taken.values():
                squares.mul_(correction)
        self.discard()
        return taken

    def discard(self) -> None:
        """Forgets what was collected, as after a forward or backward pass that failed."""
        self._forget_passes()
        for one in self._followed:
            one.calls, one.whole, one.ahead = {}, None, -1

    def remove(self) -> None:
        """Takes the hooks off the model."""
        for handle in (*self._handles, *(one.audit for one in self._followed if one.audit is not None)):
            handle.remove()
        self._handles.clear()
        for one in self._followed:
            one.audit = None
        self.discard()

    # The hooks, in the order of their calls: around a layer, at its output in the backward pass, at a parameter.

    def _starts(self, layer: Layer, module: Any, args: tuple) -> None:
        listening = self.recording and torch.is_grad_enabled() and module.training and module.dropout > 0
        layer.random_state = random_state(args) if listening else None

    def _ends(self, layer: Layer, module: nn.Module, args: tuple, kwargs: dict[str, Any], output: Any) -> Any:
        if not (self.recording and torch.is_grad_enabled()):
            return None
        if any(isinstance(x, PackedSequence) for x in args):
            raise ValueError(
                f"{layer} was called with a PackedSequence: pad the sequences and mask the loss, {WAY_OUT}"
            )
        outputs = floating(output)
        if any(torch._C._functorch.is_functorch_wrapped_tensor(y) for y in outputs):
            return None
        task = torch._C._current_graph_task_id()
        if task == -1:  # no backward pass is under way: what has arrived in earlier ones went to no parameter
            for one in layer.followed:
                one.drop_arrived()
        kept = [y.detach() for y in outputs] if layer.replays else ()
        if len(outputs) > 1:  # one may be computed from another: copies, which only the outside sees, keep them apart
            output = pytree.tree_map_only(Tensor, Tensor.clone, output)
            outputs = floating(output)
        call = Call(
            layer,
            *detached(args, kwargs),
            outputs=kept,
            num_outputs=len(outputs),
            random_state=layer.random_state,
            is_rounded=layer.replays and is_rounded(outputs),
            forward_task=task,
        )
        layer.random_state = None
        if len(args) == 1 and isinstance(output, Tensor) and one_visit.suits(layer, args[0], output):
            arrival = partial(self._arrives_for_one_visit, call)
            return one_visit.Linear.apply(output.detach(), args[0], module.weight, module.bias, arrival)
        for index, y in enumerate(outputs):
            if y.requires_grad:
                surviving_changes_in_place(y).register_hook(partial(self._arrives, call, index, y.shape))
        return output

    def _arrives(self, call: Call, output: int, shape: Size, grad: Tensor) -> None:
        if not self.recording:
            return
        if torch.is_grad_enabled():
            raise RuntimeError(
                "there are no per-example squares under create_graph=True: set engine.recording = False around it"
            )
        if call.spent:
            raise RuntimeError("backward() ran through one graph a second time: add the losses up and call it once")
        task = torch._C._current_graph_task_id()
        if self._looked_in != task:
            self._looked_in = task
            taken = [one for one in self._followed if one.squares is not None]
            if taken and all(one.was_cleared() for one in taken):
                self._forget_passes()
        for one in call.layer.followed:
            one.calls[call] = None
        call.receive(output, grad if grad.shape == shape else grad.reshape(shape), task)

    def _arrives_for_one_visit(self, call: Call, grad: Tensor) -> dict[str, Gradients] | None:
        self._arrives(call, 0, grad.shape, grad)
        return call.by_name() if self.recording else None

    def _accumulates(self, number: int, grad: Tensor) -> None:
        if self.recording:
            self._followed[number].whole = grad

    def _forget_passes(self) -> None:
        """Those that have been; of one that is under way, its calls stay."""
        self._passes.clear()
        for one in self._followed:
            one.forget_passes()

    def _mixes(self, name: str, module: Any, _: tuple, __: Any) -> None:
        if self.recording and torch.is_grad_enabled() and (module.training or module.running_mean is None):
            raise ValueError(mixes_examples(f"{type(module).__name__} {name!r}"))

    def _accumulated(self, number: int, p: nn.Parameter) -> None:
        if not self.recording:
            return
        one = self._followed[number]
        task = torch._C._current_graph_task_id()
        if one.ahead != task:
            self._take_squares(one, task)
        one.ahead, one.left = -1, -1 if p.grad is None else p.grad._version

    def _take_squares(self, one: Followed, task: int) -> None:
        """Of a parameter, and of those that come with it."""
        calls, one.calls = [call for call in one.calls if call.task == task], {}
        if not calls:
            raise unaccounted(one)
        # An audit takes gradients, which are not all there yet.
        together = one.together if not any(other.audit for other in one.together) else []
        taken = [one, *(other for other in together if other.calls and other.param.requires_grad)]
        self.recording = False  # a rule may run its layer again
        try:
            with full_precision(one.param.device.type):
                for other in taken:
                    self._add_squares(other, calls)
        finally:
            self.recording = True
        for other in taken[1:]:
            other.calls, other.ahead, other.left = {}, task, -1
        for call in calls:
            for other in taken:
                call.done_with(other.param)

    def _add_squares(self, one: Followed, calls: list[Call]) -> None:
        uses = [(call, use) for call in calls for use in call.gradients(one.param)]
        if not uses:  # a parameter that was added to the layer, which the layer's rule does not know of
            raise unaccounted(one)
        if len(uses) > 1:
            for call in calls:
                call.layer.several_uses = True
        examples = self._count_examples(one, uses)
        gradients = summed([use for _, use in uses])
        first_size, _ = next(iter(self._passes.values()))
        scale = examples**2 / max(1, first_size)  # so that a single backward pass needs no correction in ``take``
        squares = gradients.sum_of_squares(scale)
        if one.audit is not None:
            spread = (squares.sum() / scale).sqrt()
            tolerance = ACCOUNTED * spread + sum(call.rounding() for call in calls)
            audit(one, gradients.total(), tolerance)
        one.squares = squares if one.squares is None else one.squares.add_(squares)

    def _count_examples(self, one: Followed, uses: list[tuple[Call, Gradients]]) -> int:
        """The size of the minibatch of this backward pass, on which all layers must agree."""
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
        return size


def _followed(
    model: nn.Module, params: Iterable[nn.Parameter] | None, excluded: set[nn.Parameter]
) -> dict[nn.Parameter, Followed]:
    names = {p: name for name, p in model.named_parameters()}
    given = list(names if params is None else params)
    for p in given:
        if p not in names:
            raise ValueError(
                f"a parameter of shape {tuple(p.shape)} is not part of the model: give the model that owns it"
            )
    return {p: Followed(p, names[p]) for p in given if p.requires_grad and p not in excluded}


def _note_what_comes_together(layers: list[Layer]) -> None:
    """The parameters of a layer that uses all of them in every call, and shares none: one has its gradient when all have."""
    owners = Counter(p for layer in layers for p in layer.params.values())
    for layer in layers:
        if not layer.replays and all(owners[p] == 1 for p in layer.params.values()):
            for one in layer.followed:
                one.together = [other for other in layer.followed if other is not one]


def audit(one: Followed, accounted: Tensor, tolerance: Tensor) -> None:
    """Once for each parameter: its layers must account for its whole gradient."""
    assert one.whole is not None
    whole = one.whole.to_dense().to(accounted.dtype)
    if not whole.isfinite().all():
        return
    if (whole - accounted).norm() > ACCOUNTED * whole.norm() + tolerance:
        raise unaccounted(one)
    one.audit.remove()
    one.audit, one.whole = None, None


def unaccounted(one: Followed) -> RuntimeError:
    return RuntimeError(
        f"the gradient of {one.name!r} does not (or not only) come from calls of the layer that owns it. Is it "
        "used elsewhere, as in F.linear(x, layer.weight) or in a penalty added to the loss, was the forward pass run "
        "with engine.recording = False or compiled, or a transposed output of the layer changed in place? Use parameters "
        f"through their layers (two layers may share one), leave penalties to prior_precision, {WAY_OUT}"
    )


def surviving_changes_in_place(output: Tensor) -> Tensor:
    """Where to hook: changing a view in place leaves the view's own hooks behind, not those of what it reshapes."""
    base = output._base
    reshapes = base is not None and base.numel() == output.numel() and base.is_contiguous() and output.is_contiguous()
    return base if reshapes else output  # type: ignore[return-value]
