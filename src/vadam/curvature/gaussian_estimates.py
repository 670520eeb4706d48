"""Curvature from Gaussian samples θ = μ + σ∘ε alone: no second derivative, and for the score function no derivative at all.

    E[∇²f] = E[ĝ∘ε/σ]                            Price's theorem, by parts   (``reparameterised``)
    E[∇f]  = E[F ε/σ],  E[∇²f] = E[F (ε² − 1)/σ²]    by parts again, twice       (``score_gradient``,
    ``score_curvature``)

σ enters as the precision σ⁻². Neither ĥ is positive by construction: VON back-tracks (App. D.1), IVON corrects.
"""

from torch import Tensor


def reparameterised(g: Tensor, eps: Tensor, precision: Tensor) -> Tensor:
    """ĥ = ĝ∘ε/σ (paper App. D)."""
    return g * eps * precision.sqrt()


def score_gradient(value: float | Tensor, eps: Tensor, precision: Tensor) -> Tensor:
    """ĝ = F ε/σ, for a loss value F = F(μ + σ∘ε) that need not be differentiable. A baseline subtracted from F lowers the variance."""
    return value * eps * precision.sqrt()


def score_curvature(value: float | Tensor, eps: Tensor, precision: Tensor) -> Tensor:
    """ĥ = F (ε² − 1)/σ². A baseline subtracted from F lowers the variance here too, since E[ε² − 1] = 0."""
    return value * (eps * eps - 1) * precision
