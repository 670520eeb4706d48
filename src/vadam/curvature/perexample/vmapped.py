"""Per-example gradients of any module: its vector-Jacobian product, vectorised over the examples, in chunks.

The module runs again on every example as a minibatch of one. Its output for the whole minibatch is known. On the CPU
a different output therefore reveals a module that mixes examples, draws random numbers or keeps state.
"""

from typing import Any

import torch
from torch import Tensor
from torch.func import vjp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree

from vadam.curvature.perexample.call import WAY_OUT, Call, floating
from vadam.curvature.perexample.gradients import CHUNK, Added, Gradients
from vadam.curvature.perexample.replay import check_same
from vadam.functional import functional_call
from vadam.interrupts import Uninterrupted
from vadam.module_state import attributes_kept


class Vmapped(Gradients):
    """Gradients of one parameter, computed on demand, a chunk of examples at a time."""

    def __init__(self, pullback: "Pullback", name: str):
        super().__init__(pullback.examples, pullback.cost, pullback.params[name].device)
        self.pullback, self.name = pullback, name

    def of(self, examples: slice) -> Tensor:
        return self.pullback(examples)[self.name]


class Pullback:
    """Compute the gradients of all parameters of one call, for a slice of the examples."""

    def __init__(self, call: Call):
        self.call = call
        self.axis = int(call.layer.sequence_first)
        self.output_grads = [
            torch.zeros_like(y) if grad is None else grad
            for y, grad in zip(call.outputs, call.output_grads, strict=True)
        ]
        if not call.outputs or any(y.ndim <= self.axis for y in call.outputs):
            raise call.unbatched(next(iter(call.outputs), torch.empty(())))
        self.examples = call.outputs[0].shape[self.axis]
        dtype = next(iter(call.layer.params.values())).dtype
        leaves, self.structure = pytree.tree_flatten((call.args, call.kwargs))
        self.leaves = [
            leaf.to(dtype) if isinstance(leaf, Tensor) and leaf.is_floating_point() else leaf for leaf in leaves
        ]
        sizes = [
            leaf.shape[self.axis] if isinstance(leaf, Tensor) and leaf.ndim > self.axis else None for leaf in leaves
        ]
        call.layer.shared_args |= {i for i, size in enumerate(sizes) if size not in (None, self.examples)}
        self.batched = [size == self.examples and i not in call.layer.shared_args for i, size in enumerate(sizes)]
        names = {p: name for name, p in reversed(call.layer.params.items())}
        self.params = {name: p.detach() for p, name in names.items()}
        activations = sum(t.numel() // max(1, self.examples) for t in (*self._inputs(), *call.outputs))
        self.cost = sum(p.numel() for p in self.params.values()) + activations

    def __call__(self, examples: slice) -> dict[str, Tensor]:
        """Return the gradients of all parameters of the module, for some examples."""
        narrow = (slice(None),) * self.axis + (examples,)
        inputs = [t[narrow] for t in self._inputs()]
        outputs = [t[narrow] for t in self.call.outputs]
        grads = [t[narrow] for t in self.output_grads]
        try:
            # Attributes are those of the pass of the training. The kernel is the only one that vmap supports.
            with Uninterrupted(), attributes_kept(self.call.module), sdpa_kernel(SDPBackend.MATH):
                gradients, replayed = vmap(self._one, in_dims=self.axis, out_dims=(0, self.axis))(inputs, grads)
        except (RuntimeError, ValueError) as error:
            raise RuntimeError(
                f"{self.call.layer} owns parameters and cannot be run example by example ({error}). Put the parameters "
                f"in a small module of their own, without dropout or other state, {WAY_OUT}"
            ) from error
        check_same(self.call, replayed, outputs)
        return {name: self.call.cast(c) for name, c in gradients.items()}

    def _one(self, inputs: list[Tensor], grads: list[Tensor]) -> tuple[dict[str, Tensor], list[Tensor]]:
        """Return the gradients of the parameters and the outputs for one example, run as a minibatch of one."""
        inputs = [x.unsqueeze(self.axis) for x in inputs]

        def forward(params: dict[str, Tensor]) -> list[Tensor]:
            args, kwargs = pytree.tree_unflatten(self._leaves_with(inputs), self.structure)
            return floating(functional_call(self.call.module, params, args, kwargs))

        outputs, pull = vjp(forward, self.params)  # type: ignore[misc]
        grads = [g.unsqueeze(self.axis).to(y.dtype) for g, y in zip(grads, outputs, strict=True)]
        return pull(grads)[0], [y.squeeze(self.axis) for y in outputs]

    def _inputs(self) -> list[Tensor]:
        return [leaf for leaf, batched in zip(self.leaves, self.batched, strict=True) if batched]

    def _leaves_with(self, inputs: list[Tensor]) -> list[Any]:
        fresh = iter(inputs)
        return [next(fresh) if batched else leaf for leaf, batched in zip(self.leaves, self.batched, strict=True)]


def vmapped(call: Call) -> dict[str, Gradients]:
    """Return the per-example gradients of any module.

    A small module computes all at once. A large one runs again for each parameter, to save memory.
    """
    pullback = Pullback(call)
    if not pullback.examples:
        return {name: Added(call.cast(p.new_zeros(0, 1, *p.shape))) for name, p in pullback.params.items()}
    if pullback.examples * pullback.cost > 16 * CHUNK:
        return {name: Vmapped(pullback, name) for name in pullback.params}
    gradients = pullback(slice(None))
    return {name: Added(gradients[name].unsqueeze(1)) for name in pullback.params}
