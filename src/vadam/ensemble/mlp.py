"""Multi-layer perceptrons: linear layers with ReLU or tanh between them, which the batched engine supports."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from torch import Tensor, nn

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}


class MLP(nn.Sequential):
    """Linear layers of the given sizes, inputs first, outputs last.

    ``keep`` holds a mask for the inputs of every linear layer, as dropout uses them: 0, or 1/(1 − p).

    >>> [tuple(p.shape) for p in MLP(13, 50, 1).parameters()]
    [(50, 13), (50,), (1, 50), (1,)]
    """

    def __init__(self, *sizes: int, activation: str = "relu") -> None:
        if len(sizes) < 2 or min(sizes) < 1:
            raise ValueError(
                f"sizes={sizes!r} is not valid: give inputs, hidden layers and outputs, e.g. MLP(13, 50, 1)"
            )
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"activation={activation!r} is not valid: choose one of {', '.join(map(repr, ACTIVATIONS))}"
            )
        layers: list[nn.Module] = [nn.Linear(sizes[0], sizes[1])]
        for fan_in, fan_out in pairwise(sizes[1:]):
            layers += [ACTIVATIONS[activation](), nn.Linear(fan_in, fan_out)]
        super().__init__(*layers)

    def forward(self, x: Tensor, keep: Sequence[Tensor] = ()) -> Tensor:
        masks = iter(keep)
        for layer in self:
            x = layer(x * next(masks) if keep and isinstance(layer, nn.Linear) else x)
        return x


class Layer(NamedTuple):
    """A linear layer: the names of its weights and the activation before it ("none" before the first)."""

    weight: str
    bias: str
    activation: str


def layers_of(module: nn.Module) -> tuple[Layer, ...] | None:
    """Return the layers of a perceptron in order, or None if ``module`` is something else, such as one whose layers share weights."""
    if not isinstance(module, nn.Sequential) or type(module).forward not in (nn.Sequential.forward, MLP.forward):
        return None
    layers: list[Layer] = []
    activation = "none"
    for name, child in module.named_children():
        kind = next((kind for kind, cls in ACTIVATIONS.items() if type(child) is cls), None)
        if type(child) is nn.Linear and child.bias is not None and (activation != "none" or not layers):
            layers.append(Layer(f"{name}.weight", f"{name}.bias", activation))
            activation = "none"
        elif kind and layers and activation == "none":
            activation = kind
        else:
            return None
    is_tied = 2 * len(layers) != len([*module.parameters()])
    return tuple(layers) if layers and activation == "none" and not is_tied else None
