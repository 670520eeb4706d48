"""Check App. B for a Gaussian with full covariance: natural gradients are gradients in the expectation parameters.

η = (Σ⁻¹μ, −½Σ⁻¹),  m = (μ, Σ + μμᵀ),  A(η) the log-partition function,  F(η) = ∇²A(η)
F(η)⁻¹ ∇_η L = ∇_m L
argmin_m ⟨m, −∇_m L⟩ + KL(q_m ‖ q_t)/β   is   η_t + β F⁻¹∇_η L
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from vadam_paper.experiments.randomness import generator
from vadam_paper.experiments.theory.config import Config

DIMENSION = 3
BETA = 0.1
PROBLEMS = 20


def check(config: Config) -> dict[str, Any]:
    """Return the largest relative errors of both statements over random Gaussians."""
    identity = step = 0.0
    for problem in range(PROBLEMS):
        eta, objective = random_problem(config, problem)
        identity = max(identity, identity_error(eta, objective))
        step = max(step, step_error(eta, objective))
    return {"dimension": DIMENSION, "problems": PROBLEMS, "identity": identity, "step": step}


def random_problem(config: Config, number: int) -> tuple[Tensor, Any]:
    """Return the natural parameters of a Gaussian, and a smooth objective of its mean and covariance."""
    random = generator(config.seed, "mirror", number)
    mu = torch.randn(DIMENSION, generator=random, dtype=torch.float64)
    root = torch.randn(DIMENSION, DIMENSION, generator=random, dtype=torch.float64)
    a, b = (torch.randn(DIMENSION, DIMENSION, generator=random, dtype=torch.float64) for _ in range(2))
    sigma = root @ root.T + torch.eye(DIMENSION, dtype=torch.float64)

    def objective(mu: Tensor, sigma: Tensor) -> Tensor:
        return torch.sin(a @ mu).sum() + (b @ sigma @ b.T).trace() + 0.5 * torch.logdet(sigma) + mu @ sigma @ mu

    return natural(mu, sigma), objective


def identity_error(eta: Tensor, objective: Any) -> float:
    """Return the relative difference between F⁻¹∇_η L and ∇_m L."""
    by_eta = torch.func.grad(lambda e: objective(*from_natural(e)))(eta)
    fisher = torch.func.jacrev(torch.func.grad(log_partition))(eta)
    natural_gradient = torch.linalg.solve(fisher, by_eta)
    by_m = expectation_gradient(eta, objective)
    return float((natural_gradient - by_m).norm() / by_m.norm())


def step_error(eta: Tensor, objective: Any) -> float:
    """Return the gradient of the mirror-descent objective at the natural-gradient step, relative to that at the start."""
    by_m = expectation_gradient(eta, objective)
    before = gaussian(eta)
    # a step that keeps the covariance positive definite
    scale = BETA
    while not _is_gaussian(eta + scale * by_m):
        scale /= 2

    def mirror(m: Tensor) -> Tensor:
        return -m @ by_m + kl_divergence(_from_expectation(m), before) / scale

    at_step = torch.func.grad(mirror)(expectation(eta + scale * by_m))
    at_start = torch.func.grad(mirror)(expectation(eta))
    return float(at_step.norm() / at_start.norm())


def expectation_gradient(eta: Tensor, objective: Any) -> Tensor:
    """Return ∇_m L."""

    def of_m(m: Tensor) -> Tensor:
        mu, sigma = _mean_and_covariance(m)
        value: Tensor = objective(mu, sigma)
        return value

    gradient: Tensor = torch.func.grad(of_m)(expectation(eta))
    return gradient


def _pack(vector: Tensor, matrix: Tensor) -> Tensor:
    """Return the vector and the lower triangle; off-diagonal entries count twice, so that inner products are right."""
    rows, columns = torch.tril_indices(DIMENSION, DIMENSION)
    entries = matrix[rows, columns]
    return torch.cat([vector, torch.where(rows == columns, entries, math.sqrt(2.0) * entries)])


def _unpack(packed: Tensor) -> tuple[Tensor, Tensor]:
    rows, columns = torch.tril_indices(DIMENSION, DIMENSION)
    entries = packed[DIMENSION:]
    once = torch.where(rows == columns, entries, math.sqrt(0.5) * entries)
    lower = torch.zeros(DIMENSION, DIMENSION, dtype=packed.dtype).index_put((rows, columns), once)
    return packed[:DIMENSION], lower + lower.T - torch.diag(lower.diagonal())


def natural(mu: Tensor, sigma: Tensor) -> Tensor:
    """Return η = (Σ⁻¹μ, −½Σ⁻¹)."""
    precision = torch.linalg.inv(sigma)
    return _pack(precision @ mu, -0.5 * precision)


def from_natural(eta: Tensor) -> tuple[Tensor, Tensor]:
    """Return μ and Σ."""
    first, second = _unpack(eta)
    sigma = torch.linalg.inv(-2 * second)
    return sigma @ first, sigma


def expectation(eta: Tensor) -> Tensor:
    """Return m = (μ, Σ + μμᵀ)."""
    mu, sigma = from_natural(eta)
    return _pack(mu, sigma + torch.outer(mu, mu))


def log_partition(eta: Tensor) -> Tensor:
    """Return A(η) = ½ μᵀΣ⁻¹μ + ½ log|2πΣ|."""
    first, second = _unpack(eta)
    precision = -2 * second
    return 0.5 * first @ torch.linalg.solve(precision, first) - 0.5 * torch.logdet(precision / (2 * math.pi))


def gaussian(eta: Tensor) -> MultivariateNormal:
    """Return the distribution with these natural parameters."""
    mu, sigma = from_natural(eta)
    return MultivariateNormal(mu, sigma, validate_args=False)


def _mean_and_covariance(m: Tensor) -> tuple[Tensor, Tensor]:
    mu, second = _unpack(m)
    return mu, second - torch.outer(mu, mu)


def _from_expectation(m: Tensor) -> MultivariateNormal:
    mu, sigma = _mean_and_covariance(m)
    return MultivariateNormal(mu, sigma, validate_args=False)


def _is_gaussian(eta: Tensor) -> bool:
    return bool((torch.linalg.eigvalsh(-2 * _unpack(eta)[1]) > 0).all())
