"""SOAP from the equations of its paper (Vyas et al., 2024): Adam in the eigenbasis of Shampoo's two factors. The peer of EVON.

    M ← β₁ M + (1 − β₁) G,   V ← β₂ V + (1 − β₂) (Q_Lᵀ G Q_R)²
    W ← W − α Q_L (Q_Lᵀ M Q_R / √V) Q_Rᵀ                            both averages bias-corrected
    L ← β₂ L + (1 − β₂) G Gᵀ,   R ← β₂ R + (1 − β₂) Gᵀ G
    every k steps:  Q_L ← qr(L Q_L),   Q_R ← qr(R Q_R)              one power iteration

Vectors and sides longer than ``max_side`` keep the identity, as in EVON, so that both have the same matrices.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from vadam.rotation import into_basis, matrix_shape, out_of_basis

EPS = 1e-8


class SOAP(torch.optim.Optimizer):
    """Adam in the eigenbasis of each weight matrix."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 3e-3,
        betas: tuple[float, float] = (0.95, 0.95),
        every: int = 10,
        max_side: int = 1024,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "every": every, "max_side": max_side})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update all weights with their gradients."""
        for group in self.param_groups:
            for p in group["params"]:
                if not self.state[p]:
                    self.state[p] = _start(p, group["max_side"])
                _update(p, self.state[p], group)


def _start(p: Tensor, max_side: int) -> dict[str, Any]:
    sides = [n if p.dim() > 1 and 1 < n <= max_side else 0 for n in matrix_shape(p.shape)]
    (L, R), (QL, QR) = ([make(n) for n in sides] for make in (lambda n: p.new_zeros(n, n), lambda n: torch.eye(n)))
    zeros = p.new_zeros(matrix_shape(p.shape))
    return {"t": 0, "M": zeros, "V": zeros.clone(), "L": L, "R": R, "QL": QL, "QR": QR}


def _update(p: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    assert p.grad is not None
    beta1, beta2 = group["betas"]
    G, M, V, QL, QR = p.grad.reshape(state["M"].shape), state["M"], state["V"], state["QL"], state["QR"]
    state["t"] += 1
    M.lerp_(G, 1 - beta1)
    turned = into_basis(G, QL, QR)
    V.mul_(beta2).addcmul_(turned, turned, value=1 - beta2)
    root = (V / (1 - beta2 ** state["t"])).sqrt_().add_(EPS)
    step = out_of_basis(into_basis(M, QL, QR) / root, QL, QR)
    p.sub_(step.view(p.shape), alpha=group["lr"] / (1 - beta1 ** state["t"]))
    for factor, basis, square in (("L", "QL", lambda: G @ G.mT), ("R", "QR", lambda: G.mT @ G)):
        if state[factor].numel():
            state[factor].lerp_(square(), 1 - beta2)
            if state["t"] % group["every"] == 0:
                state[basis] = torch.linalg.qr(state[factor] @ state[basis])[0]
