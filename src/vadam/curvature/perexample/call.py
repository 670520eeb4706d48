"""A layer as the engine sees it, and one recorded call: its inputs and the gradients at its outputs."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from vadam.curvature.perexample.gradients import Gradients

WAY_OUT = "or put its parameters in a group with deterministic=True, which leaves them out"


@dataclass(eq=False)
class Layer:
    """A module, its followed parameters, and the rule that computes their per-example gradients."""

    name: str
    module: nn.Module
    params: dict[str, nn.Parameter]
    rule: "Rule"
    replays: bool  # the rule runs the module again, and needs all arguments, the outputs and the random state
    sequence_first: bool  # inputs are [T, B, ...], not [B, T, ...]
    is_layout_known: bool = True  # if False, [B, T, ...] is a guess that other layers of the model contradict
    followed: list[int] = field(default_factory=list)  # the engine's numbers of the parameters
    hook_id: int = -1  # the id of the engine's forward hook
    random_state: Any = None  # at the start of the current call, for modules with dropout inside
    is_reused: bool = False  # a parameter was used more than once in one backward pass
    has_positions: bool = False  # it was called with several positions in an example
    shared_args: set[int] = field(default_factory=set)  # arguments without an axis of examples, seen by their size

    def __str__(self) -> str:
        kind = type(self.module).__name__
        return f"{kind} {self.name!r}" if self.name else f"the model ({kind})"


@dataclass(eq=False)
class Call:
    """One call of a layer, with detached arguments. Rules compute in float32 or wider, whatever the model's dtype."""

    layer: Layer
    args: tuple
    kwargs: Mapping[str, Any]
    outputs: Sequence[Tensor]  # kept if the rule replays
    num_outputs: int
    random_state: Any = None
    is_rounded: bool = False  # the module computes in half precision, at least in parts
    forward_task: int = -1  # the backward pass inside which the forward pass ran, as under checkpointing
    task: int = -1  # the backward pass that the output gradients belong to
    output_grads: list[Tensor | None] = field(default_factory=list)
    pending: set[nn.Parameter] = field(default_factory=set)  # parameters whose squares are not computed yet
    needs_input_grad: bool = False  # a fused backward pass needs the gradient at the first input
    input_grads: Sequence[Tensor | None] = ()  # at the inputs, from a rule that serves a fused backward pass
    _gradients: dict[str, Gradients] | None = None

    def __post_init__(self) -> None:
        self.dtype = torch.promote_types(next(iter(self.layer.params.values())).dtype, torch.float32)
        self._versions = [t._version for t in self._tensors()]
        self.note_versions()

    @property
    def module(self) -> Any:
        """Return the module that was called."""
        return self.layer.module

    @property
    def input(self) -> Tensor:
        """Return the first argument of the call, cast to the dtype of the rules."""
        return self.cast(self.args[0] if self.args else self.kwargs.get("input", next(iter(self.kwargs.values()))))

    @property
    def output_grad(self) -> Tensor:
        """Return the gradient at the first output, cast to the dtype of the rules."""
        grad = self.output_grads[0]
        assert grad is not None
        return self.cast(grad)

    def cast(self, tensor: Tensor) -> Tensor:
        """Cast a floating-point tensor to the dtype of the rules."""
        return tensor.to(self.dtype) if tensor.dtype != self.dtype and tensor.is_floating_point() else tensor

    def positions(self, tensor: Tensor, features: int) -> Tensor:
        """Reshape a tensor that ends in ``features`` feature axes to [B, T, *features]."""
        leading = tensor.ndim - features
        if leading < 1:
            raise self.unbatched(tensor)
        if leading > 1 and not self.layer.is_layout_known and tensor.shape[0] == tensor.shape[1]:
            raise ValueError(
                f"{self.layer} was called with a tensor of shape {tuple(tensor.shape)}, and other layers of the model take [T, B, ...]: "
                "say which of the two axes of this layer holds the examples, with sequence_first=True or False"
            )
        self.layer.has_positions = self.layer.has_positions or leading > 1
        if self.layer.sequence_first and leading > 1:
            tensor = tensor.transpose(0, 1)
        return tensor.unsqueeze(1) if leading == 1 else tensor.flatten(1, leading - 1)

    def gradients(self) -> dict[str, Gradients]:
        """Return the per-example gradients through this call, by the name of the parameter."""
        if self._gradients is None:
            if [t._version for t in self._tensors()] != self._versions:
                raise RuntimeError(
                    f"an input of {self.layer} was changed in place after the call: give the layer a copy"
                )
            self._gradients = self.layer.rule(self)
        return self._gradients

    def gradients_of(self, param: nn.Parameter) -> list[Gradients]:
        """Return the per-example gradients of ``param``, one entry for each name it has in the layer."""
        gradients = self.gradients()
        return [gradients[name] for name, p in self.layer.params.items() if p is param and name in gradients]

    def note_versions(self) -> None:
        """Record the versions of the outputs, so that later changes in place are noticed."""
        self._output_versions = [y._version for y in self.outputs]

    def is_intact(self, output: int) -> bool:
        """Return True if ``outputs[output]`` was not changed in place since the layer returned it."""
        return self.outputs[output]._version == self._output_versions[output]

    def receive(self, output: int, grad: Tensor, task: int) -> None:
        """Store the gradient that a backward pass delivers at one output."""
        if task != self.task:
            self.task, self.output_grads = task, [None] * self.num_outputs
            self.pending = set(self.layer.params.values())
        self.output_grads[output] = grad
        self._gradients = None

    def release(self, param: nn.Parameter) -> None:
        """Free the activations after the last parameter; the user's loss may keep the graph alive."""
        self.pending.discard(param)
        if not self.pending:
            self.args, self.kwargs, self.outputs, self.random_state = (), {}, (), None
            self.output_grads, self.input_grads, self._gradients = [], (), None

    def rounding(self) -> float:
        """Return a bound of the rounding error that is left of a gradient whose terms cancel, as that of a bias before BatchNorm."""
        return sum(torch.finfo(z.dtype).eps ** 0.5 * z.norm().item() for z in self.output_grads if z is not None)

    @property
    def is_released(self) -> bool:
        """Return True if all squares of the current backward pass are computed."""
        return self.task != -1 and not self.pending

    def unbatched(self, tensor: Tensor) -> ValueError:
        """Return the error for a tensor without an axis for the examples."""
        return ValueError(
            f"{self.layer} was called with a tensor of shape {tuple(tensor.shape)}, which has no axis for the examples: "
            f"add one with x.unsqueeze(0), {WAY_OUT}"
        )

    def _tensors(self) -> list[Tensor]:
        if len(self.args) == 1 and isinstance(self.args[0], Tensor) and not self.kwargs:
            return [self.args[0]]
        return [leaf for leaf in pytree.tree_leaves((self.args, self.kwargs)) if isinstance(leaf, Tensor)]


def mixes_examples(layer: str) -> str:
    """Return the error message for a layer that mixes the examples of a minibatch."""
    return (
        f"{layer} is in training mode, where it mixes the examples of a minibatch: per-example gradients do not exist. Use GroupNorm, "
        "keep the layer in eval mode"
    )


def detached(args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Detach all tensors of a call's arguments."""
    if len(args) == 1 and isinstance(args[0], Tensor) and not kwargs:
        return (args[0].detach(),), kwargs
    return pytree.tree_map_only(Tensor, Tensor.detach, (args, kwargs))


def floating(tree: Any) -> list[Tensor]:
    """Return the tensors of a module's output that a gradient can flow into."""
    leaves = [tree] if isinstance(tree, Tensor) else pytree.tree_leaves(tree)
    return [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.is_floating_point()]


def is_rounded(outputs: list[Tensor]) -> bool:
    """Return True if a tensor is computed in half precision or under autocast."""
    return any(_is_autocast(y.device.type) or torch.finfo(y.dtype).bits < 32 for y in outputs)


def full_precision(device_type: str) -> AbstractContextManager:
    """Return a context that disables autocast."""
    return torch.autocast(device_type, enabled=False) if _is_autocast(device_type) else nullcontext()


def _is_autocast(device_type: str) -> bool:
    return torch.amp.is_autocast_available(device_type) and torch.is_autocast_enabled(device_type)


Rule = Callable[[Call], dict[str, Gradients]]
