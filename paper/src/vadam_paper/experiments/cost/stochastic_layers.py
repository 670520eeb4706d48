"""VI without weight-perturbation: layers that draw their own weights (Bayes by backprop).

    θ = μ + σ∘ε,  σ = log(1 + exp ρ)         in every layer, in every forward pass

Autograd differentiates through the draw with respect to μ and ρ, and the optimizer has twice as many parameters.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class StochasticLinear(nn.Module):
    """A linear layer that draws its weights in every forward pass."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.mu = nn.ParameterList([linear.weight.detach().clone(), linear.bias.detach().clone()])
        self.rho = nn.ParameterList([torch.full_like(p, -5.0) for p in self.mu])

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = (mu + F.softplus(rho) * torch.randn_like(mu) for mu, rho in zip(self.mu, self.rho, strict=True))
        return F.linear(x, weight, bias)

    def kl(self, prior_precision: float) -> Tensor:
        """Return KL(q‖p) to N(0, 1/λ), up to a constant."""
        terms = (
            0.5 * prior_precision * (mu.square().sum() + F.softplus(rho).square().sum()) - F.softplus(rho).log().sum()
            for mu, rho in zip(self.mu, self.rho, strict=True)
        )
        return torch.stack(list(terms)).sum()


def stochastic(model: nn.Sequential) -> nn.Sequential:
    """Return the same network with stochastic linear layers."""
    return nn.Sequential(*(StochasticLinear(layer) if isinstance(layer, nn.Linear) else layer for layer in model))
