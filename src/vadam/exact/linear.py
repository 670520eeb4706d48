"""Bayesian linear regression with known noise: everything in closed form.

    p(w) = N(w | 0, Λ⁻¹),   p(y | X, w) = N(y | Xw, τ⁻¹I)
    p(w | y) = N(w | m, P⁻¹),   P = Λ + τ XᵀX,   m = τ P⁻¹Xᵀy
    log p(y) = ½ [log det Λ − log det P + N log(τ/2π) − τ‖y − Xm‖² − mᵀΛm]

The best mean-field Gaussian has the mean m and the precision diag(P): its variances are smaller than the true
marginal ones. ``X`` is [N, D] (put a column of ones into it for an intercept), ``prior_precision`` the diagonal of Λ,
a number or a vector [D].
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from vadam.exact.inputs import Array, finite_matrix, finite_vector, prior_diagonal
from vadam.gaussian import FullGaussian, MeanFieldGaussian


@dataclass(frozen=True)
class Fit:
    """The posterior N(mean, precision⁻¹) and the log evidence log p(y), a total over the data."""

    mean: Tensor
    precision: Tensor
    prior_precision: Tensor
    noise_precision: float
    log_evidence: float
    num_data: int

    @property
    def covariance(self) -> Tensor:
        return torch.linalg.inv(self.precision)

    @property
    def stddev(self) -> Tensor:
        return self.covariance.diagonal().sqrt()

    @property
    def mean_field_precision(self) -> Tensor:
        """Return the precision [D] of the mean-field Gaussian that maximises the ELBO; its mean is ``mean``."""
        return self.precision.diagonal()

    @property
    def mean_field_elbo(self) -> float:
        """Return the ELBO of the best mean-field Gaussian: log evidence − ½ [log det diag(P) − log det P]."""
        return self.log_evidence - 0.5 * (self.precision.diagonal().log().sum() - torch.logdet(self.precision)).item()

    def predict(self, X: Array) -> tuple[Tensor, Tensor]:
        """Return mean and variance of a new y at each row of X, including the noise 1/τ."""
        X = finite_matrix(X)
        return X @ self.mean, (X * torch.linalg.solve(self.precision, X.T).T).sum(1) + 1 / self.noise_precision

    def predict_mean_field(self, X: Array) -> tuple[Tensor, Tensor]:
        """Return mean and variance of a new y at each row of X under the best mean-field Gaussian."""
        X = finite_matrix(X)
        return X @ self.mean, X**2 @ (1 / self.mean_field_precision) + 1 / self.noise_precision

    def posterior(self, name: str = "weight") -> FullGaussian:
        """Return the posterior of the weight [1, D] of ``nn.Linear(D, 1, bias=False)``."""
        prior: dict[str, float | Tensor] = {name: self.prior_precision[None]}
        return FullGaussian(self.mean, self.precision, {name: torch.Size((1, len(self.mean)))}, prior_precision=prior)

    def mean_field_posterior(self, name: str = "weight") -> MeanFieldGaussian:
        """Return the best mean-field posterior of the weight [1, D] of ``nn.Linear(D, 1, bias=False)``."""
        prior: dict[str, float | Tensor] = {name: self.prior_precision[None]}
        return MeanFieldGaussian(
            {name: self.mean[None]}, {name: self.mean_field_precision[None]}, prior_precision=prior
        )


def fit(X: Array, y: Array, *, noise_precision: float, prior_precision: float | Array) -> Fit:
    """Return the exact posterior over the weights."""
    X, y = finite_matrix(X), finite_vector(y, "y")
    if len(y) != len(X):
        raise ValueError(f"X has {len(X)} rows, but y has {len(y)} targets: give one for each row")
    if not 0 < noise_precision < math.inf:
        raise ValueError(f"noise_precision must be positive and finite, not {noise_precision}")
    lam, tau, N = prior_diagonal(prior_precision, X.shape[1]), noise_precision, len(X)
    P = torch.diag(lam) + tau * X.T @ X
    m = torch.linalg.solve(P, tau * X.T @ y)
    log_dets = lam.log().sum() - torch.logdet(P)
    misfit = tau * (y - X @ m).square().sum() + (lam * m**2).sum()
    log_evidence = 0.5 * (log_dets + N * math.log(tau / (2 * math.pi)) - misfit)
    return Fit(m, P, lam, tau, log_evidence.item(), N)
