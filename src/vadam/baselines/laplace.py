"""Laplace approximations: a Gaussian at the MAP network θ*, whose precision is the curvature there.

    q(θ) = N(θ | θ*, P⁻¹),   P = λI + Σᵢ Jᵢᵀ Hᵢ Jᵢ,   Jᵢ = ∂f(xᵢ; θ*)/∂θ,   Hᵢ = −∂²log p(yᵢ | f)/∂f²

The generalised Gauss–Newton matrix in P is exact for networks that are linear in θ and never indefinite: where Hᵢ could be,
with Student's t or noise that depends on the input, its expectation over y stands for it, the Fisher information.
``DiagonalLaplace`` keeps its diagonal over all weights. ``LastLayerLaplace`` keeps the full matrix over the last
linear layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Self, Unpack

import torch
from torch import Tensor, nn
from torch.func import jacrev, vmap

from vadam.baselines.map import MAP
from vadam.baselines.training import ModelOrFactory, TrainingOptions
from vadam.functional import functional_call
from vadam.gaussian import FullGaussian, MeanFieldGaussian
from vadam.interrupts import Uninterrupted
from vadam.likelihoods import InputNoiseGaussian, InputNoiseStudentT, Likelihood, StudentT
from vadam.module_state import attributes_kept

JACOBIAN_ELEMENTS_AT_ONCE = 2**24


class _Laplace:
    """Train a MAP network, then fit the Gaussian ``posterior`` to its curvature."""

    posterior: MeanFieldGaussian | FullGaussian

    def __init__(self, prior_precision: float = 1.0) -> None:
        self.map = MAP(prior_precision)

    @property
    def model(self) -> nn.Module | None:
        return self.map.model

    def fit(
        self,
        model: ModelOrFactory,
        X: Tensor,
        y: Tensor,
        likelihood: Likelihood,
        **options: Unpack[TrainingOptions],
    ) -> Self:
        """Train by ``MAP.fit`` with its options, then compute the curvature over X.

        With ``epochs=0`` the model counts as trained.
        """
        self.map.fit(model, X, y, likelihood, **options)
        assert self.map.model is not None
        self.posterior = self._gaussian(self.map.model, X, y, likelihood)
        return self

    def sample(self, n: int | None = None, *, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        if not hasattr(self, "posterior"):
            raise RuntimeError(f"{type(self).__name__} has no weights yet: call fit(model, X, y, likelihood) first")
        return self.posterior.sample(n, generator=generator)

    def _gaussian(
        self, model: nn.Module, X: Tensor, y: Tensor, likelihood: Likelihood
    ) -> MeanFieldGaussian | FullGaussian:
        raise NotImplementedError


class DiagonalLaplace(_Laplace):
    """A Laplace approximation with precision diag(P) over all trained weights."""

    def _gaussian(self, model: nn.Module, X: Tensor, y: Tensor, likelihood: Likelihood) -> MeanFieldGaussian:
        lam = self.map.prior_precision
        weights, point = _split(model, lambda p: p.requires_grad)
        diagonal = torch.cat([torch.full_like(p, lam).flatten() for p in weights.values()])
        for J, H in _curvature(model, weights, X, y, likelihood):
            diagonal += torch.einsum("nap,nab,nbp->p", J, H, J)
        parts = diagonal.split([p.numel() for p in weights.values()])
        precision = {name: part.reshape(p.shape) for (name, p), part in zip(weights.items(), parts, strict=True)}
        return MeanFieldGaussian(weights, precision, point=point, prior_precision=dict.fromkeys(weights, lam))


class LastLayerLaplace(_Laplace):
    """A Laplace approximation with the full P over the weight and bias of the last ``nn.Linear``.

    All other weights are deterministic.
    """

    def _gaussian(self, model: nn.Module, X: Tensor, y: Tensor, likelihood: Likelihood) -> FullGaussian:
        lam = self.map.prior_precision
        linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
        if not linear:
            raise ValueError(f"{type(model).__name__} has no nn.Linear layer: use DiagonalLaplace")
        of_last_layer = {*linear[-1].parameters()}  # tied ones have the name of another layer
        weights, point = _split(model, lambda p: p in of_last_layer)
        mean = torch.cat([p.flatten() for p in weights.values()])
        P = lam * torch.eye(len(mean), dtype=mean.dtype, device=mean.device)
        for J, H in _curvature(model, weights, X, y, likelihood):
            P += J.flatten(0, 1).T @ (H @ J).flatten(0, 1)
        shapes = {name: p.shape for name, p in weights.items()}
        return FullGaussian(mean, (P + P.T) / 2, shapes, point=point, prior_precision=dict.fromkeys(weights, lam))


def _split(model: nn.Module, of_posterior: Callable[[Tensor], bool]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the weights that get a distribution, and the other ones."""
    named = dict(model.named_parameters())
    chosen = {name: p.detach() for name, p in named.items() if of_posterior(p)}
    return chosen, {name: p.detach() for name, p in named.items() if name not in chosen}


def _curvature(
    model: nn.Module, weights: dict[str, Tensor], X: Tensor, y: Tensor, likelihood: Likelihood
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield J [n, K, P] and H [n, K, K] for n examples at a time, so that memory stays bounded."""

    def flat_output(weights: dict[str, Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
        output = functional_call(model, weights, (x[None],))[0]
        return output.flatten(), output

    def of_example(x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        J, output = jacrev(flat_output, has_aux=True)(weights, x)
        return torch.cat([part.flatten(1) for part in J.values()], dim=1), _information(likelihood, output, target)

    with torch.no_grad():
        outputs = model(X[:1]).numel()
    n = max(1, JACOBIAN_ELEMENTS_AT_ONCE // (outputs * sum(p.numel() for p in weights.values())))
    for x_part, y_part in zip(X.split(n), y.split(n), strict=True):
        with Uninterrupted(), attributes_kept(model):  # Ctrl-C would leave torch inside vmap
            found = vmap(of_example)(x_part, y_part)
        yield found


def _information(likelihood: Likelihood, output: Tensor, target: Tensor) -> Tensor:
    """Return H [K, K] of one example: −∂²log p(y | f)/∂f², or its expectation over y where it may be indefinite."""
    if isinstance(likelihood, StudentT | InputNoiseGaussian | InputNoiseStudentT):
        dof = getattr(likelihood, "dof", math.inf)
        scale_squared = (1 - 2 / dof) * likelihood.std(output[None]) ** 2
        diagonal = [(1 + 1 / dof) / (1 + 3 / dof) / scale_squared]  # of the means, and then of the log scales
        if not isinstance(likelihood, StudentT):
            diagonal.append(torch.full_like(scale_squared, 2 / (1 + 3 / dof)))
        return torch.cat(diagonal, dim=-1).flatten().diag()

    def nll(f: Tensor) -> Tensor:
        return -likelihood.log_prob(f.reshape(output.shape)[None], target[None]).sum()

    found: Tensor = jacrev(jacrev(nll))(output.flatten())
    return found
