"""Any module by ``torch.func``: the gradient of one network at one sample, mapped over samples and networks.

The module must be pure in its weights: no BatchNorm in training mode, no dropout of its own. Signals wait during a pass: Ctrl-C would
leave torch inside vmap, and a member's weights in the module.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.func import grad, vmap

from vadam.ensemble.engine import Examples
from vadam.ensemble.layout import Weights
from vadam.functional import functional_call
from vadam.interrupts import Uninterrupted
from vadam.likelihoods import FORMULAS
from vadam.module_state import attributes_kept


@dataclass(frozen=True, eq=False)
class VmappedModule:
    """The engine for any module, by ``torch.func``."""

    module: nn.Module
    likelihood: str

    def gradients(self, theta: Weights, examples: Examples, *, squares: bool) -> tuple[Weights, Weights]:
        over_samples = (0, None, None, None, None, 0)
        over_members = (0, 0, 0, 0, 0, 0)
        with Uninterrupted(), attributes_kept(self.module) as restore:
            g = vmap(vmap(grad(self._loss), over_samples), over_members)(theta, *examples)
            restore()
            return g, vmap(vmap(self._squares, over_samples), over_members)(theta, *examples) if squares else {}

    def outputs(self, theta: Weights, x: Tensor, keep: tuple[Tensor, ...] = ()) -> Tensor:
        with Uninterrupted(), attributes_kept(self.module):
            return vmap(vmap(self._output, (0, None, 0)), (0, 0, 0))(theta, x, keep)

    def _output(self, theta: Weights, x: Tensor, keep: tuple[Tensor, ...]) -> Tensor:
        output = functional_call(self.module, theta, (x, keep) if keep else (x,))
        return output.unsqueeze(-1) if output.dim() == 1 else output

    def _loss(
        self, theta: Weights, x: Tensor, y: Tensor, weight: Tensor, tau: Tensor, keep: tuple[Tensor, ...]
    ) -> Tensor:
        log_p = FORMULAS[self.likelihood].log_density(self._output(theta, x, keep), y, tau).sum(-1)
        return -(weight * log_p).sum()

    def _squares(
        self, theta: Weights, x: Tensor, y: Tensor, weight: Tensor, tau: Tensor, keep: tuple[Tensor, ...]
    ) -> Weights:
        def gradient_of_one(x: Tensor, y: Tensor, keep: tuple[Tensor, ...]) -> Weights:
            one = tuple(mask[None] for mask in keep)
            return grad(self._loss)(theta, x[None], y[None], weight.new_ones(1), tau, one)

        each = vmap(gradient_of_one)(x, y, keep)
        return {name: (weight.view(-1, *[1] * (g.dim() - 1)) * g**2).sum(0) for name, g in each.items()}
