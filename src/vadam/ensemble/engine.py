"""The common interface of the three engines: gradients and outputs of E networks at S samples of their weights.

``bmm`` does perceptrons by batched matrix products, ``vmap`` any module through ``torch.func``, ``loop`` one network and one
sample at a time through autograd. They compute the same numbers.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor, nn

from vadam.ensemble.layout import Weights
from vadam.ensemble.mlp import MLP, layers_of
from vadam.likelihoods import FORMULAS


class Examples(NamedTuple):
    """A minibatch for each of E networks.

    ``weight`` is the weight of an example divided by their number, and 0 for padding.
    """

    x: Tensor  # [E, M, ...]
    y: Tensor  # [E, M, O]
    weight: Tensor  # [E, M]
    tau: Tensor  # [E], noise precision
    keep: tuple[Tensor, ...] = ()  # dropout masks, [E, S, M, inputs] for each linear layer


class Engine(Protocol):
    """The protocol of an engine."""

    def gradients(self, theta: Weights, examples: Examples, *, squares: bool) -> tuple[Weights, Weights]:
        """Return the gradient of Σᵢ wᵢ (−log pᵢ) and, if asked for, Σᵢ wᵢ (∇ −log pᵢ)², for every weight [E, S, ...]."""

    def outputs(self, theta: Weights, x: Tensor, keep: tuple[Tensor, ...] = ()) -> Tensor:
        """Return outputs [E, S, M, O] at weights [E, S, ...] and inputs [E, M, ...]."""

    def __hash__(self) -> int: ...


def choose(name: str, network: nn.Module, likelihood: str) -> Engine:
    """Return the engine of that name; "auto" takes the batched one for perceptrons and vmap otherwise."""
    from vadam.ensemble import bmm, loop, vmap

    if likelihood not in FORMULAS:
        raise ValueError(f"likelihood={likelihood!r} is not valid: choose one of {', '.join(map(repr, FORMULAS))}")
    layers = layers_of(network)
    if name == "auto":
        name = "bmm" if layers else "vmap"
    if name == "bmm":
        if layers is None:
            raise ValueError(
                "engine='bmm' is for perceptrons: an nn.Sequential of Linear (with bias) and ReLU or Tanh in turn, or "
                f"vadam.ensemble.MLP, not {type(network).__name__}; use engine='vmap'"
            )
        return bmm.BatchedMLP(layers, likelihood)
    if name == "vmap":
        return vmap.VmappedModule(network, likelihood)
    if name == "loop":
        return loop.LoopedModule(network, likelihood)
    raise ValueError(f"engine={name!r} is not valid: choose one of 'auto', 'bmm', 'vmap', 'loop'")


def check_dropout(network: nn.Module) -> None:
    """Raise ValueError unless the network is an ``MLP``, whose layers dropout masks."""
    if not isinstance(network, MLP):
        raise ValueError(
            f"drops_out=True needs a vadam.ensemble.MLP, whose layers it masks, got {type(network).__name__}"
        )
