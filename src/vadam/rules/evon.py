"""Variational Online Newton in an eigenbasis (EVON, "SOAP-Bubbles", 2026): IVON along the eigenvectors of SOAP's two factors.

For a weight matrix W with mean μ, and Q = (Q_L, Q_R) orthogonal; X' = Q_Lᵀ X Q_R is X in the basis:

    θ = μ + Q_L (ε ∘ σ) Q_Rᵀ,  σ⁻² = N (s + λ̃)
    ĥ = ĝ' ∘ ε/σ                                                   Price's estimate in the basis
    m ← β₁ m + (1 − β₁) ĝ
    s₊ = β₂ s + (1 − β₂) ĥ + ½ (1 − β₂)² (s − ĥ)² / (s + λ̃)
    μ ← μ − α Q_L clip((m/(1 − β₁ᵗ) + λ̃ (μ − μ₀))' / (s₊ + λ̃), ±ξ) Q_Rᵀ
    L ← β L + (1 − β) ĝ ĝᵀ,  R ← β R + (1 − β) ĝᵀ ĝ

Every k steps Q_L ← qr((L + ρI) Q_L) and Q_R ← qr((R + ρI) Q_R), one step of orthogonal iteration towards the eigenvectors; at first
they are the identity. The shift ρ, a thousandth of the mean eigenvalue, does not change the eigenvectors. It keeps the axes in which
there was no gradient yet: without it rounding would choose them.

m and μ are kept in the weights' own coordinates, so that they do not change with the basis. s becomes the diagonal of the same
precision along the new axes, s ← (A_L∘A_L)ᵀ s (A_R∘A_R) with A = Q_oldᵀ Q_new. What is dropped are the correlations between the new
axes, which a diagonal cannot hold; ĥ brings s to its right value from there.

The prior is isotropic, the same in every basis. Convolutions are matrices [out, in · kernel]. Vectors, sides of length 1 and sides longer
than ``max_side`` keep the identity, for which an empty matrix stands.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vadam.rotation import diagonal_in_basis, into_basis, is_identity, matrix_shape, out_of_basis
from vadam.rules import ivon
from vadam.rules.arguments import Argument
from vadam.rules.binding import Curvature
from vadam.rules.von import Scalar, pull, ratio

SCOPE = "tensor"
SHIFT = 1e-3
"""ρ as a fraction of the mean eigenvalue."""
CURVATURE = Curvature.REPARAMETERISED
ARGUMENTS = (
    *ivon.ARGUMENTS,
    Argument(
        "basis_beta", 0.999, "[0, 1)", "Decay rate β of the two averages of squared gradients that give the basis."
    ),
    Argument("basis_every", 10, "[1, inf)", "Number of steps k between updates of the basis."),
    Argument(
        "max_side",
        1024,
        "[1, inf)",
        "Longest side of a weight matrix that gets a basis; longer ones keep the identity.",
    ),
)


def rule_args(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments under the names of the equations."""
    basis = {"beta": values["basis_beta"], "every": values["basis_every"], "max_side": values["max_side"]}
    return {**ivon.rule_args(values), **basis}


class State(NamedTuple):
    mu: Tensor
    m: Tensor
    s: Tensor
    L: Tensor
    R: Tensor
    QL: Tensor
    QR: Tensor
    s0: Scalar
    beta1_t: Scalar
    t: Scalar


def shapes(name: str, shape: torch.Size) -> set[tuple[int, ...]]:
    """Return the shapes that a tensor of the state may have, given that of the weights; axes may be the identity."""
    if name in ("m", "s"):
        return {tuple(shape)}
    side = matrix_shape(shape)[name.endswith("R")]
    return {(side, side), (0, 0)}


def init(mu: Tensor, *, init_precision: Scalar, N: Scalar, lam: Scalar, max_side: float) -> State:
    mean, m, s, s0, beta1_t = ivon.init(mu, init_precision=init_precision, N=N, lam=lam)
    sides = [n if mu.dim() > 1 and 1 < n <= max_side else 0 for n in matrix_shape(mu.shape)]
    zeros = [mu.new_zeros(n, n) for n in sides]
    eyes = [torch.eye(n, dtype=mu.dtype, device=mu.device) for n in sides]
    (L, R), (QL, QR) = zeros, eyes
    return State(mean, m, s, L, R, QL, QR, s0, beta1_t, 0.0)


def precision(state: State, *, N: Scalar, lam: Scalar) -> Tensor:
    """Return the precision along the axes of the basis, in the shape of the weight."""
    return N * state.s + lam


def deviation(state: State, eps: Tensor, *, N: Scalar, lam: Scalar) -> Tensor:
    """Return θ − μ = Q_L (ε∘σ) Q_Rᵀ."""
    scaled = eps * precision(state, N=N, lam=lam).rsqrt()
    return out_of_basis(_matrix(scaled), state.QL, state.QR).view(eps.shape)


def products(state: State, g: Tensor, deviation: Tensor, *, N: Scalar, lam: Scalar) -> Tensor:
    """Return ĥ = ĝ'∘ε/σ in the basis, given θ − μ."""
    g, scaled = (into_basis(_matrix(x), state.QL, state.QR).view(x.shape) for x in (g, deviation))
    return g * scaled * precision(state, N=N, lam=lam)


def update(
    state: State,
    g: Tensor,
    h: Tensor,
    *,
    alpha: Scalar,
    beta1: Scalar,
    beta2: Scalar,
    beta: Scalar,
    every: float,
    N: Scalar,
    lam: Scalar,
    mu0: Scalar = 0.0,
    xi: float = float("inf"),
) -> State:
    mu, m, s, L, R, QL, QR, s0, beta1_t, t = state
    s0, beta1_t, t = beta2 * s0, beta1 * beta1_t, t + 1
    m = beta1 * m + (1 - beta1) * g
    s = beta2 * s + (1 - beta2) * h + 0.5 * (1 - beta2) ** 2 * ratio((s - h) ** 2, s, lam / N)
    pulled = m / (1 - beta1_t) + pull(mu, mu0, lam / N)
    step = ratio(into_basis(_matrix(pulled), QL, QR), _matrix(s), lam / N)
    mu = mu - alpha * out_of_basis(step.clamp(-xi, xi), QL, QR).view(mu.shape)
    G = _matrix(g)
    L = L if is_identity(L) else beta * L + (1 - beta) * G @ G.mT
    R = R if is_identity(R) else beta * R + (1 - beta) * G.mT @ G
    if t % every == 0:
        (QL, AL), (QR, AR) = _next_basis(L, QL), _next_basis(R, QR)
        s = diagonal_in_basis(_matrix(s), AL, AR).view(s.shape)
    return State(mu, m, s, L, R, QL, QR, s0, beta1_t, t)


def _next_basis(L: Tensor, Q: Tensor) -> tuple[Tensor, Tensor]:
    """Return qr((L + ρI) Q), and the new axes expressed in the old basis."""
    if is_identity(Q):
        return Q, Q
    new, _ = torch.linalg.qr(L @ Q + SHIFT * L.diagonal().mean() * Q)
    new = new.clone(memory_format=torch.contiguous_format)  # as a checkpoint brings it back
    return new, Q.mT @ new


def _matrix(x: Tensor) -> Tensor:
    return x.reshape(matrix_shape(x.shape))
