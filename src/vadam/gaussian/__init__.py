"""Posteriors over the weights of a network.

    q(θ) = Πᵢ N(θᵢ | μᵢ, σᵢ²),  σ⁻² = precision        MeanFieldGaussian
    q(W) = N(W | M, Q diag(σ²) Qᵀ), Q = Q_L ⊗ Q_R       RotatedGaussian, for every weight matrix W
    q(θ) = N(θ | μ, Σ),         Σ⁻¹ = precision        FullGaussian
    q(θ) = 1/K Σₖ qₖ(θ)                                Mixture

Weights are dictionaries from a parameter's name in its module to a tensor. ``point`` holds the deterministic weights
(trained but not sampled, or frozen): every sample contains them, no density or divergence counts them.
"""

from vadam.gaussian.full import FullGaussian
from vadam.gaussian.mean_field import MeanFieldGaussian
from vadam.gaussian.mixture import Mixture
from vadam.gaussian.rotated import RotatedGaussian
from vadam.gaussian.summary import Shares, Summary, UninformedPosterior

__all__ = [
    "FullGaussian",
    "MeanFieldGaussian",
    "Mixture",
    "RotatedGaussian",
    "Shares",
    "Summary",
    "UninformedPosterior",
]
