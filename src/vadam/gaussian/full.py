"""One Gaussian over all weights together, with their correlations.

    q(θ) = N(θ | μ, Σ),  Σ⁻¹ = precision = L Lᵀ,  prior p(θ) = Πᵢ N(θᵢ | μ₀ᵢ, 1/λᵢ)

FullVON learns it. D weights need D² numbers, so it is for small networks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from vadam.gaussian import named_tensors
from vadam.gaussian.mean_field import MeanFieldGaussian
from vadam.gaussian.named_tensors import PriorMean, PriorPrecision, Weights
from vadam.gaussian.summary import Summary


@dataclass(frozen=True, eq=False, repr=False)
class FullGaussian:
    """A Gaussian with ``mean`` [D] and ``precision`` [D, D] over the flattened weights, in the order of ``shapes``.

    ``variance`` and ``stddev`` are flat too; samples have names; ``marginals()`` gives mean and deviation by name. The other
    fields are those of ``MeanFieldGaussian``.

    >>> precision = torch.tensor([[2.0, 1.0], [1.0, 2.0]])
    >>> post = FullGaussian(torch.zeros(2), precision, {"a": torch.Size([1]), "b": torch.Size([])})
    >>> {name: draw.shape for name, draw in post.sample(3).items()}
    {'a': torch.Size([3, 1]), 'b': torch.Size([3])}
    """

    mean: Tensor
    precision: Tensor
    shapes: dict[str, torch.Size]
    _: KW_ONLY
    point: Weights = field(default_factory=dict)
    prior_precision: PriorPrecision | None = None
    prior_mean: PriorMean | None = None
    temperature: dict[str, float] = field(default_factory=dict)
    tempered_by: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shapes = {name: torch.Size(shape) for name, shape in self.shapes.items()}
        D = sum(shape.numel() for shape in shapes.values())
        if self.mean.shape != (D,) or self.precision.shape != (D, D):
            found = f"{list(self.mean.shape)} and {list(self.precision.shape)}"
            raise ValueError(
                f"the shapes hold {D} weights, so mean must be [{D}] and precision [{D}, {D}], not {found}"
            )
        named_tensors.check_real(mean={"weights": self.mean}, precision={"weights": self.precision})
        if self.precision.dtype.itemsize < 4:
            raise TypeError(
                f"precision must be of torch.float32 or torch.float64, not {self.precision.dtype}: convert it by .float()"
            )
        named_tensors.check_points(self.point, shapes)
        named_tensors.check_prior(self.prior_precision, self.prior_mean, shapes)
        own: dict[str, Any] = {
            "shapes": shapes,
            **named_tensors.copied({"mean": self.mean, "precision": self.precision}),
        }
        own |= {name: named_tensors.copied(getattr(self, name)) for name in ("point", "prior_precision", "prior_mean")}
        for name, value in own.items():
            object.__setattr__(self, name, value)
        if minor := int(torch.linalg.cholesky_ex(self.precision).info):
            raise ValueError(f"precision must be positive definite, but its first {minor} rows and columns are not")

    @classmethod
    def of(cls, post: MeanFieldGaussian) -> FullGaussian:
        """Return a mean-field Gaussian as a full one, e.g. to compare it with another by ``kl_to``."""
        if not isinstance(post, MeanFieldGaussian):
            raise TypeError(
                f"FullGaussian.of needs a MeanFieldGaussian, got {type(post).__name__}: a RotatedGaussian has full()"
            )
        if post.pruned:
            raise ValueError(
                "FullGaussian.of needs a posterior with a density for every weight: give the one that prune() was called on"
            )
        mean, precision = (named_tensors.wide(vector) for vector in post.flat())
        dtype = torch.promote_types(mean.dtype, precision.dtype)
        shapes = named_tensors.shapes_of(post.mean)
        prior: dict[str, Any] = {"prior_precision": post.prior_precision, "prior_mean": post.prior_mean}
        prior |= {"temperature": post.temperature, "tempered_by": post.tempered_by}
        return cls(mean.to(dtype), precision.diag().to(dtype), shapes, point=post.point, **prior)

    @cached_property
    def _cholesky(self) -> Tensor:
        """Return the lower-triangular L."""
        return torch.linalg.cholesky(self.precision)

    @property
    def _half_log_det(self) -> Tensor:
        """Return ½ log det Σ⁻¹."""
        return self._cholesky.diagonal().log().sum()

    @property
    def covariance(self) -> Tensor:
        return torch.cholesky_inverse(self._cholesky)

    @property
    def variance(self) -> Tensor:
        return self.covariance.diagonal()

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    @property
    def num_weights(self) -> int:
        """Return the number D of sampled weights."""
        return len(self.mean)

    def sample(self, n: int | None = None, *, generator: torch.Generator | None = None) -> Weights:
        """Draw θ = μ + L⁻ᵀε; with ``n``, n draws stacked along a new first axis.

        Deterministic weights are expanded, not copied.
        """
        lead = named_tensors.leading(n)
        epsilon = named_tensors.standard_normal((self.num_weights, n or 1), like=self.mean, generator=generator)
        theta = self.mean + torch.linalg.solve_triangular(self._cholesky.mT, epsilon, upper=True).mT
        return named_tensors.with_points(self._named(theta.reshape(*lead, self.num_weights)), self.point, lead)

    def log_prob(self, sample: Mapping[str, Tensor]) -> Tensor:
        """Return log q(θ), one number for each of the stacked draws."""
        theta = torch.cat(list(named_tensors.flattened(sample, self.shapes, self.point).values()), -1)
        away = theta - self.mean
        distance = (away @ self._cholesky.to(away.dtype)).square().sum(-1)
        return self._half_log_det - 0.5 * (self.num_weights * math.log(2 * math.pi) + distance)

    def entropy(self) -> Tensor:
        """Return the entropy ½ log det(2πe Σ) in nats."""
        return 0.5 * self.num_weights * (1 + math.log(2 * math.pi)) - self._half_log_det

    def kl(self) -> Tensor:
        """Return KL(q‖p) to the prior, in closed form."""
        lam = named_tensors.proper(self.prior_precision)
        zeros, mu0 = self._named(torch.zeros_like(self.mean)), self.prior_mean or {}
        mean = {name: zero + mu0.get(name, 0.0) for name, zero in zeros.items()}
        precision = {name: torch.ones_like(zero) * lam[name] for name, zero in zeros.items()}
        return self.kl_to(FullGaussian.of(MeanFieldGaussian(mean, precision)))

    def kl_to(self, other: FullGaussian) -> Tensor:
        """Return ½ [tr(P Σ) + (μ − m)ᵀ P (μ − m) − D + log det Σ⁻¹ − log det P], the KL to the other N(m, P⁻¹)."""
        if not isinstance(other, FullGaussian):
            raise TypeError(
                f"other must be a FullGaussian, got {type(other).__name__}: convert it with FullGaussian.of"
            )
        if list(self.shapes.items()) != list(other.shapes.items()):
            raise ValueError(f"other must be over the same weights, {dict(self.shapes)}, got {dict(other.shapes)}")
        away = self.mean - other.mean
        dtype = torch.promote_types(away.dtype, torch.result_type(self._cholesky, other._cholesky))
        own, theirs = self._cholesky.to(dtype), other._cholesky.to(dtype)
        trace = torch.linalg.solve_triangular(own, theirs, upper=False).square().sum()
        distance = (away.to(dtype) @ theirs).square().sum()
        return 0.5 * (trace + distance - self.num_weights) + self._half_log_det - other._half_log_det

    def symmetric_kl(self, other: FullGaussian) -> Tensor:
        """Return (KL(q‖other) + KL(other‖q))/2, the distance between posteriors in the paper's experiments."""
        return (self.kl_to(other) + other.kl_to(self)) / 2

    def summary(self) -> Summary:
        """Return the sizes of the means and of the marginal deviations; print it."""
        return self.marginals().summary()

    def flat(self) -> tuple[Tensor, Tensor]:
        """Return μ [D] and Σ⁻¹ [D, D]."""
        return self.mean, self.precision

    def marginals(self) -> MeanFieldGaussian:
        """Return the marginal Gaussian of each weight: the same variances, without correlations."""
        mean, precision = self._named(self.mean), self._named(1 / self.variance)
        prior: dict[str, Any] = {"prior_precision": self.prior_precision, "prior_mean": self.prior_mean}
        prior |= {"temperature": self.temperature, "tempered_by": self.tempered_by}
        return MeanFieldGaussian(mean, precision, point=self.point, **prior)

    def to(self, *args: Any, **kwargs: Any) -> FullGaussian:
        """Return the posterior on another device or in another dtype; the arguments are those of ``Tensor.to``."""
        names = ("point", "prior_precision", "prior_mean")
        moved = {name: named_tensors.moved(getattr(self, name), *args, **kwargs) for name in names}
        mean, precision = self.mean.to(*args, **kwargs), self.precision.to(*args, **kwargs)
        return replace(self, mean=mean, precision=precision, **moved)

    def _named(self, flat: Tensor) -> Weights:
        parts = flat.split([shape.numel() for shape in self.shapes.values()], dim=-1)
        lead = flat.shape[:-1]
        return {name: part.reshape((*lead, *s)) for (name, s), part in zip(self.shapes.items(), parts, strict=True)}

    def __repr__(self) -> str:
        return f"FullGaussian({self.num_weights:,} weights in {len(self.shapes)} tensors)"
