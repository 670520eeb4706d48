"""Bayesian logistic regression: the best Gaussian approximations of its posterior, exactly (the paper's MF-Exact).

    p(w) = N(w | 0, Λ⁻¹),   p(y | x, w) = σ(y xᵀw) for y = ±1,   q(w) = N(w | m, V)
    𝓛(m, V) = Σᵢ E log σ(zᵢ) − KL(q‖p),   zᵢ ~ N(yᵢ xᵢᵀm, xᵢᵀV xᵢ)

The expectations have closed forms (``vadam.exact.expectations``), so nothing is sampled or bounded. ``mean_field``
finds the best diagonal V and ``full_gaussian`` the best V without restriction, to rounding error, in float64.

Throughout, ``X`` is [N, D] (put a column of ones into it for a bias), ``y`` holds labels 0/1 or ±1,
``prior_precision`` is the diagonal of Λ as a number or a vector [D], and ``covariance`` is V, a vector [D] when it is
diagonal. NumPy arrays are accepted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vadam.exact.expectations import Expectations, expected_log_sigmoid, expected_sigmoid, softplus_expectations
from vadam.exact.inputs import Array, finite_matrix, finite_vector, prior_diagonal, signed_rows
from vadam.exact.newton import conjugate_gradients, did_not_converge, step_size
from vadam.gaussian import FullGaussian, MeanFieldGaussian

MAX_ITERATIONS = 200


@dataclass(frozen=True)
class Fit:
    """A Gaussian N(mean, covariance) over the weights; ``elbo`` is a total over the data.

    ``gradient_norm`` is the norm of the gradient of the negative ELBO at the end, in the metric of its curvature. Half
    its square is the distance of the ELBO from its maximum, in nats.
    """

    mean: Tensor
    covariance: Tensor
    prior_precision: Tensor
    elbo: float
    num_data: int
    gradient_norm: float
    iterations: int

    @property
    def stddev(self) -> Tensor:
        return (self.covariance if self.covariance.dim() == 1 else self.covariance.diagonal()).sqrt()

    @property
    def precision(self) -> Tensor:
        """Return V⁻¹: a vector [D] for a mean-field fit, a matrix [D, D] for a full one."""
        return 1 / self.covariance if self.covariance.dim() == 1 else torch.linalg.inv(self.covariance)

    @property
    def nelbo_per_datum(self) -> float:
        return -self.elbo / self.num_data

    def probability(self, X: Array) -> Tensor:
        return probability(X, self.mean, self.covariance)

    def log_loss(self, X: Array, y: Array) -> Tensor:
        return log_loss(X, y, self.mean, self.covariance)

    def posterior(self, name: str = "weight", shape: Sequence[int] = (1, -1)) -> MeanFieldGaussian | FullGaussian:
        """Return the posterior of a module's parameter; the defaults fit ``nn.Linear(D, 1, bias=False)``."""
        mean = self.mean.reshape(*shape)
        prior: dict[str, float | Tensor] = {name: self.prior_precision.reshape(*shape)}
        if self.covariance.dim() == 1:
            return MeanFieldGaussian({name: mean}, {name: self.precision.reshape(*shape)}, prior_precision=prior)
        return FullGaussian(self.mean, self.precision, {name: mean.shape}, prior_precision=prior)


def elbo(
    X: Array,
    y: Array,
    mean: Array,
    covariance: Array,
    prior_precision: float | Array,
    *,
    prior_normaliser_mask: Array | None = None,
) -> Tensor:
    """Return 𝓛(m, V) of any Gaussian, a total over the data.

    ``prior_normaliser_mask`` [D] says for which weights the prior's normaliser ½ log λⱼ is counted, all by default.
    The authors' experiments leave out the normaliser of the bias, whose prior is nearly flat: pass 0 there and 1
    elsewhere to compare with their numbers. It shifts the ELBO by a constant.
    """
    A, m, V = signed_rows(X, y), finite_vector(mean, "mean"), _covariance(covariance)
    lam = prior_diagonal(prior_precision, len(m))
    counted = torch.as_tensor(1.0 if prior_normaliser_mask is None else prior_normaliser_mask, dtype=torch.float64)
    log_det = V.log().sum() if V.dim() == 1 else torch.logdet(V)
    variance = V if V.dim() == 1 else V.diagonal()
    expected_log_likelihood = expected_log_sigmoid(*_logit_moments(A, m, V)).sum()
    expected_log_prior_plus_entropy = 0.5 * ((counted * lam.log() + 1 - lam * (m**2 + variance)).sum() + log_det)
    return expected_log_likelihood + expected_log_prior_plus_entropy


def probability(X: Array, mean: Array, covariance: Array) -> Tensor:
    """Return P(y = 1 | x) = E σ(xᵀw) for each row of X."""
    return expected_sigmoid(*_logit_moments(finite_matrix(X), finite_vector(mean, "mean"), _covariance(covariance)))


def log_loss(X: Array, y: Array, mean: Array, covariance: Array) -> Tensor:
    """Return −mean log P(yᵢ | xᵢ) of the predictive probabilities, in nats."""
    moments = _logit_moments(signed_rows(X, y), finite_vector(mean, "mean"), _covariance(covariance))
    return -expected_sigmoid(*moments).log().mean()


def mean_field(X: Array, y: Array, prior_precision: float | Array, *, tolerance: float = 1e-10) -> Fit:
    """Return the Gaussian with diagonal V = diag(s²) that maximises the ELBO.

    The negative ELBO is convex in (m, s), so Newton's method with a line search finds its minimum. With rows aᵢ =
    −yᵢxᵢ, expectations E ζ, E σ, ... at N(aᵢᵀm, Σⱼ aᵢⱼ²sⱼ²), A² elementwise and B = A² diag(s):

        F  = Σᵢ E ζ + Σⱼ ½ λⱼ(mⱼ² + sⱼ²) − log sⱼ
        ∇F = (Aᵀ E σ + λ m,  Bᵀ E σ' + λ s − 1/s)
        H  = [[Aᵀ E σ' A + λ, Aᵀ E σ'' B], [·, Bᵀ E σ''' B + diag((A²)ᵀ E σ' + λ + 1/s²)]]
    """
    A = -signed_rows(X, y)
    lam = prior_diagonal(prior_precision, A.shape[1])

    def objective(m: Tensor, s: Tensor) -> Tensor:
        softplus = softplus_expectations(*_logit_moments(A, m, s**2)).softplus
        return softplus.sum() + (lam * (m**2 + s**2) / 2 - s.log()).sum()

    def derivatives(m: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        E = softplus_expectations(*_logit_moments(A, m, s**2))
        B, curvature = A**2 * s, (A**2).T @ E.sigmoid1
        gradient = torch.cat([A.T @ E.sigmoid + lam * m, curvature * s + lam * s - 1 / s])
        mm = A.T @ (E.sigmoid1[:, None] * A) + torch.diag(lam)
        ms = A.T @ (E.sigmoid2[:, None] * B)
        ss = B.T @ (E.sigmoid3[:, None] * B) + torch.diag(curvature + lam + s**-2)
        return gradient, torch.cat([torch.cat([mm, ms], 1), torch.cat([ms.T, ss], 1)])

    m, s = torch.zeros_like(lam), (lam + (A**2).sum(0) / 4).rsqrt()
    for iteration in range(MAX_ITERATIONS):
        gradient, hessian = derivatives(m, s)
        step = -torch.cholesky_solve(gradient[:, None], torch.linalg.cholesky(hessian))[:, 0]
        norm = (-gradient @ step).clamp(min=0).sqrt().item()
        if norm <= tolerance:
            final = elbo(X, y, m, s**2, lam).item()
            return Fit(m, s**2, lam, final, len(A), norm, iteration)
        dm, ds = step.split(len(m))
        size = step_size(objective, (m, s), (dm, ds), norm**2)
        m, s = m + size * dm, s + size * ds
    raise did_not_converge(norm, tolerance, MAX_ITERATIONS)


def full_gaussian(X: Array, y: Array, prior_precision: float | Array, *, tolerance: float = 1e-10) -> Fit:
    """Return the Gaussian with full covariance V = LLᵀ that maximises the ELBO.

    The negative ELBO is convex in m and the lower-triangular L, so Newton's method finds its minimum. Each step moves
    by (u, T) in the coordinates where the current q is standard normal, m ← m + Lu and L ← L(I + T). There, with rows
    aᵢ = −yᵢxᵢᵀL and S = Aᵀ E σ' A + LᵀΛL, which is I at the optimum,

        ∇F     = (Aᵀ E σ + LᵀΛm,  tril(S) − I)
        H(u,T) = (Su + ½ Aᵀ(E σ'' δv),  tril(ST + Aᵀ(E σ'' δμ + ½ E σ''' δv)A) + diag(T)),   δμᵢ = aᵢᵀu,  δvᵢ = 2 aᵢᵀTaᵢ

    so H is close to I and a few conjugate gradients solve for the step.
    """
    rows = -signed_rows(X, y)
    lam = prior_diagonal(prior_precision, rows.shape[1])
    D = len(lam)

    def objective(m: Tensor, L: Tensor) -> Tensor:
        softplus = softplus_expectations(rows @ m, (rows @ L).square().sum(1)).softplus
        return softplus.sum() + (lam * (m**2 + L.square().sum(1))).sum() / 2 - L.diagonal().log().sum()

    m, L = torch.zeros_like(lam), torch.linalg.cholesky(torch.linalg.inv(torch.diag(lam) + rows.T @ rows / 4))
    for iteration in range(MAX_ITERATIONS):
        A = rows @ L
        E = softplus_expectations(rows @ m, A.square().sum(1))
        S = A.T @ (E.sigmoid1[:, None] * A) + L.T @ (lam[:, None] * L)
        gradient = _packed(A.T @ E.sigmoid + L.T @ (lam * m), S - torch.eye(D).to(S))

        def hessian_times(step: Tensor, A: Tensor = A, S: Tensor = S, E: Expectations = E) -> Tensor:
            u, T = _unpacked(step, D)
            dmu, dv = A @ u, 2 * ((A @ T) * A).sum(1)
            curved = A.T @ ((E.sigmoid2 * dmu + E.sigmoid3 * dv / 2)[:, None] * A)
            return _packed(S @ u + A.T @ (E.sigmoid2 * dv) / 2, S @ T + curved + torch.diag(T.diagonal()))

        step = conjugate_gradients(hessian_times, -gradient)
        norm = (-gradient @ step).clamp(min=0).sqrt().item()
        if norm <= tolerance:
            V = L @ L.T
            return Fit(m, V, lam, elbo(X, y, m, V, lam).item(), len(rows), norm, iteration)
        u, T = _unpacked(step, D)
        dm, dL = L @ u, L @ T
        size = step_size(objective, (m, L), (dm, dL), norm**2)
        m, L = m + size * dm, L + size * dL
    raise did_not_converge(norm, tolerance, MAX_ITERATIONS)


def _packed(u: Tensor, T: Tensor) -> Tensor:
    """Concatenate a vector [D] and the lower triangle of a matrix [D, D] to one vector."""
    return torch.cat([u, T.tril().flatten()])


def _unpacked(step: Tensor, D: int) -> tuple[Tensor, Tensor]:
    return step[:D], step[D:].reshape(D, D)


def _logit_moments(X: Tensor, mean: Tensor, covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and variance of xᵀw for w ~ N(mean, covariance), for each row of X."""
    return X @ mean, X**2 @ covariance if covariance.dim() == 1 else ((X @ covariance) * X).sum(1)


def _covariance(covariance: Array) -> Tensor:
    V = torch.as_tensor(covariance, dtype=torch.float64).detach()
    return V if V.dim() == 2 and V.shape[0] == V.shape[1] > 1 else V.flatten()
