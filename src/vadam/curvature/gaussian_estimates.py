"""Curvature from Gaussian samples θ = μ + σ∘ε, without second derivatives.

    E[∇²f] = E[ĝ∘ε/σ]                                Price's theorem       (``reparameterised``)
    E[∇f]  = E[F ε/σ],  E[∇²f] = E[F (ε² − 1)/σ²]    score function        (``score_gradient``, ``score_curvature``)

The score-function estimates need only values F of the loss, no derivatives. σ enters as the precision σ⁻².
Neither ĥ is positive by construction: VON back-tracks (App. D.1), IVON corrects.
"""

from torch import Tensor


def reparameterised(g: Tensor, eps: Tensor, precision: Tensor) -> Tensor:
    """Return ĥ = ĝ∘ε/σ (paper App. D)."""
    return g * eps * precision.sqrt()


def score_gradient(value: float | Tensor, eps: Tensor, precision: Tensor) -> Tensor:
    """Return ĝ = F ε/σ for a loss value F = F(μ + σ∘ε) that need not be differentiable.

    Subtract a baseline from F to lower the variance.
    """
    return value * eps * precision.sqrt()


def score_curvature(value: float | Tensor, eps: Tensor, precision: Tensor) -> Tensor:
    """Return ĥ = F (ε² − 1)/σ² for a loss value F = F(μ + σ∘ε).

    Subtract a baseline from F to lower the variance; ĥ stays unbiased, since E[ε² − 1] = 0.
    """
    return value * (eps * eps - 1) * precision
