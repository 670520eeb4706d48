"""One network and one sample at a time, by autograd: the slow, obvious reference for the other engines.

It is also the way for a module that ``torch.func`` cannot map.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vadam.ensemble.engine import Examples
from vadam.ensemble.layout import Weights
from vadam.functional import functional_call
from vadam.likelihoods import FORMULAS
from vadam.module_state import attributes_kept


@dataclass(frozen=True, eq=False)
class LoopedModule:
    """The reference engine: a loop over networks and samples."""

    module: nn.Module
    likelihood: str

    def gradients(self, theta: Weights, examples: Examples, *, squares: bool) -> tuple[Weights, Weights]:
        g = {name: torch.zeros_like(value) for name, value in theta.items()}
        h = {name: torch.zeros_like(value) for name, value in theta.items()} if squares else {}
        E, S = next(iter(theta.values())).shape[:2]
        for e in range(E):
            real = examples.weight[e] > 0
            x, y, weight, tau = examples.x[e][real], examples.y[e][real], examples.weight[e][real], examples.tau[e]
            for s in range(S):
                theta_es = {name: value[e, s].detach().requires_grad_() for name, value in theta.items()}
                keep = tuple(mask[e, s][real] for mask in examples.keep)
                log_p = FORMULAS[self.likelihood].log_density(self._output(theta_es, x, keep), y, tau).sum(-1)
                for name, value in _gradient(-(weight * log_p).sum(), theta_es).items():
                    g[name][e, s] = value
                for i in range(len(log_p)) if squares else ():
                    for name, value in _gradient(-log_p[i], theta_es).items():
                        h[name][e, s] += weight[i] * value**2
        return g, h

    def outputs(self, theta: Weights, x: Tensor, keep: tuple[Tensor, ...] = ()) -> Tensor:
        E, S = next(iter(theta.values())).shape[:2]

        def at(e: int, s: int) -> Tensor:
            theta_es = {name: value[e, s] for name, value in theta.items()}
            return self._output(theta_es, x[e], tuple(mask[e, s] for mask in keep))

        return torch.stack([torch.stack([at(e, s) for s in range(S)]) for e in range(E)])

    def _output(self, theta: Weights, x: Tensor, keep: tuple[Tensor, ...]) -> Tensor:
        with attributes_kept(self.module):
            output = functional_call(self.module, theta, (x, keep) if keep else (x,))
        return output.unsqueeze(-1) if output.dim() == 1 else output


def _gradient(loss: Tensor, theta: Weights) -> Weights:
    grads = torch.autograd.grad(loss, list(theta.values()), retain_graph=True)
    return dict(zip(theta, grads, strict=True))
