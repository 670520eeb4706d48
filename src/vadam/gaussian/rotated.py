"""A Gaussian for every weight matrix, independent along axes of its own: the weights of a matrix are correlated.

    W = M + Q_L (ε∘σ) Q_Rᵀ,  σ⁻² = precision,  Q_L and Q_R orthogonal,  prior p(W) = Πᵢⱼ N(Wᵢⱼ | μ₀, 1/λ)

EVON learns it. The covariance of W, its rows laid end to end, is (Q_L ⊗ Q_R) diag(σ²) (Q_L ⊗ Q_R)ᵀ. It is never built: draws, densities and
divergences take products with Q_L and Q_R only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from vadam.gaussian import named_tensors
from vadam.gaussian.full import FullGaussian
from vadam.gaussian.mean_field import MeanFieldGaussian
from vadam.gaussian.named_tensors import PriorMean, PriorPrecision, Weights
from vadam.gaussian.summary import Shares, Summary
from vadam.rotation import diagonal_in_basis, into_basis, matrix_shape, out_of_basis, relative


@dataclass(frozen=True, eq=False, repr=False)
class RotatedGaussian:
    """Hold means, precisions along the axes, the axes and the prior by parameter name, as a snapshot.

    Args:
        mean: the means M, in the weights' own coordinates.
        precision: the precisions σ⁻² along the axes, in the shapes of the weights.
        left: the axes Q_L [rows, rows] of the weights that have them, as matrices [out, in · kernel].
        right: the axes Q_R [columns, columns], likewise; without axes a side keeps its own coordinates.
        point: weights that are known exactly.
        prior_precision: the prior's precisions λ, numbers or tensors that broadcast to the weights; None for no prior.
        prior_mean: the prior's means μ₀, likewise; None for zero.
        shares: what part of the precision is the prior's and the start's, for ``summary()``; optimizers fill it in.
        temperature: temperatures that the precisions are divided by, 1 where none is given; optimizers fill it in.
        tempered_by: the factors of these that ``tempered()`` has added since the training, 1 where none is given.

    >>> turn = torch.tensor([[0.6, -0.8], [0.8, 0.6]])
    >>> post = RotatedGaussian({"w": torch.zeros(1, 2)}, {"w": torch.tensor([[1.0, 100.0]])}, right={"w": turn})
    >>> post.marginals().variance["w"]
    tensor([[0.3664, 0.6436]])
    >>> round(post.correlation("w")[0, 1].item(), 3)
    0.979
    """

    mean: Weights
    precision: Weights
    _: KW_ONLY
    left: Weights = field(default_factory=dict)
    right: Weights = field(default_factory=dict)
    point: Weights = field(default_factory=dict)
    prior_precision: PriorPrecision | None = None
    prior_mean: PriorMean | None = None
    shares: dict[str, Shares] = field(default_factory=dict)
    temperature: dict[str, float] = field(default_factory=dict)
    tempered_by: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shapes = named_tensors.shapes_of(self.mean)
        named_tensors.check_real(mean=self.mean, precision=self.precision)
        named_tensors.check_shapes("precision", self.precision, shapes)
        named_tensors.check_points(self.point, self.mean)
        named_tensors.check_prior(self.prior_precision, self.prior_mean, shapes)
        named_tensors.check_positive(self.precision)
        for side, axes in enumerate((self.left, self.right)):
            _check_axes(("left", "right")[side], side, axes, shapes)
        object.__setattr__(self, "precision", {name: self.precision[name] for name in self.mean})  # in the same order
        for name in ("mean", "precision", "left", "right", "point", "prior_precision", "prior_mean"):
            object.__setattr__(self, name, named_tensors.copied(getattr(self, name)))

    @classmethod
    def of(cls, post: MeanFieldGaussian) -> RotatedGaussian:
        """Return a mean-field Gaussian as one whose axes are the weights themselves."""
        prior = {
            "prior_precision": post.prior_precision,
            "prior_mean": post.prior_mean,
            "temperature": post.temperature,
            "tempered_by": post.tempered_by,
        }
        if post.pruned:
            raise ValueError(
                "RotatedGaussian.of needs a posterior with a density for every weight: give the one that prune() was called on"
            )
        return cls(post.mean, post.precision, point=post.point, shares=post.shares, **prior)  # type: ignore[arg-type]

    @property
    def variance(self) -> Weights:
        """Return the variance of each weight by itself, by name."""
        found = {}
        for name, value in self.precision.items():
            QL, QR = self._axes(name)
            along = 1 / self._matrices(name, named_tensors.wide(value))
            turned = diagonal_in_basis(along, relative(QL, None), relative(QR, None))
            found[name] = turned.reshape(value.shape).to(value.dtype)
        return found

    @property
    def stddev(self) -> Weights:
        """Return the standard deviation of each weight by itself, by name."""
        return {name: value.sqrt() for name, value in self.variance.items()}

    @property
    def num_weights(self) -> int:
        """Return the number of sampled weights."""
        return sum(value.numel() for value in self.mean.values())

    def sample(self, n: int | None = None, *, generator: torch.Generator | None = None) -> Weights:
        """Return a draw W = M + Q_L (ε∘σ) Q_Rᵀ; with ``n``, n draws stacked along a new first axis."""
        lead = named_tensors.leading(n)
        draws = {}
        for name, mu in self.mean.items():
            sigma = named_tensors.wide(self.precision[name]).rsqrt()
            epsilon = named_tensors.standard_normal((*lead, *mu.shape), like=sigma, generator=generator).mul_(sigma)
            turned = out_of_basis(self._matrices(name, epsilon), *self._axes(name))
            draws[name] = turned.reshape(epsilon.shape).add_(mu).to(mu.dtype)
        return named_tensors.with_points(draws, self.point, lead)

    def log_prob(self, sample: Mapping[str, Tensor]) -> Tensor:
        """Return log q(θ), one number for each of the stacked draws."""
        theta = named_tensors.flattened(sample, named_tensors.shapes_of(self.mean), self.point)

        def log_density(name: str) -> Tensor:
            P = named_tensors.wide(self.precision[name]).flatten()
            away = theta[name] - named_tensors.wide(self.mean[name]).flatten()
            turned = into_basis(self._matrices(name, away), *self._axes(name, away.dtype)).reshape(away.shape)
            return 0.5 * (P.log() - math.log(2 * math.pi) - P * turned**2).sum(-1)

        return named_tensors.total(log_density(name) for name in self.mean)

    def entropy(self) -> Tensor:
        """Return the entropy Σᵢ ½ log(2πe σᵢ²) in nats."""
        constant = 1 + math.log(2 * math.pi)
        return named_tensors.total(
            0.5 * (constant - named_tensors.wide(p).log()).sum() for p in self.precision.values()
        )

    def kl(self) -> Tensor:
        """Return KL(q‖p) to the prior in nats, in closed form."""
        lam, mu0 = named_tensors.proper(self.prior_precision), self.prior_mean or {}
        mean = {name: torch.zeros_like(mu) + mu0.get(name, 0.0) for name, mu in self.mean.items()}
        precision = {name: torch.zeros_like(named_tensors.wide(mu)) + lam[name] for name, mu in self.mean.items()}
        return self.kl_to(MeanFieldGaussian(mean, precision))

    def kl_to(self, other: RotatedGaussian | MeanFieldGaussian) -> Tensor:
        """Return KL(q‖other) in nats, in closed form; for a FullGaussian see ``full()``."""
        if isinstance(other, MeanFieldGaussian):
            other = RotatedGaussian.of(other)
        if not isinstance(other, RotatedGaussian):
            raise TypeError(
                f"a RotatedGaussian compares with another or a MeanFieldGaussian, not with {type(other).__name__}; see full()"
            )
        named_tensors.check_shapes("other", other.mean, named_tensors.shapes_of(self.mean))
        rotated = other
        return named_tensors.total(self._kl(name, rotated) for name in self.mean)

    def symmetric_kl(self, other: RotatedGaussian | MeanFieldGaussian) -> Tensor:
        """Return (KL(q‖other) + KL(other‖q))/2, the distance between posteriors in the paper's experiments."""
        there = self.kl_to(other)
        rotated = RotatedGaussian.of(other) if isinstance(other, MeanFieldGaussian) else other
        return (there + rotated.kl_to(self)) / 2

    def marginals(self) -> MeanFieldGaussian:
        """Return each weight by itself: the variances stay, the correlations go."""
        precision = {name: 1 / value for name, value in self.variance.items()}
        prior = {
            "prior_precision": self.prior_precision,
            "prior_mean": self.prior_mean,
            "temperature": self.temperature,
            "tempered_by": self.tempered_by,
        }
        return MeanFieldGaussian(self.mean, precision, point=self.point, shares=self.shares, **prior)  # type: ignore[arg-type]

    def correlation(self, name: str) -> Tensor:
        """Return the correlations [D, D] of the weights of one tensor, its rows laid end to end; for small tensors."""
        covariance = self._dense(name, 1 / named_tensors.wide(self.precision[name]))
        sigma = covariance.diagonal().sqrt()
        return covariance / torch.outer(sigma, sigma)

    def full(self) -> FullGaussian:
        """Return the same Gaussian with one matrix over all weights, D² numbers, e.g. to compare it by ``kl_to``."""
        shapes = named_tensors.shapes_of(self.mean)
        mean = named_tensors.end_to_end(named_tensors.wide(mu) for mu in self.mean.values())
        blocks = [self._dense(name, named_tensors.wide(P)).to(mean.dtype) for name, P in self.precision.items()]
        precision = torch.block_diag(*blocks).reshape(len(mean), len(mean))
        prior: dict[str, Any] = {"prior_precision": self.prior_precision, "prior_mean": self.prior_mean}
        prior |= {"temperature": self.temperature, "tempered_by": self.tempered_by}
        return FullGaussian(mean, precision, shapes, point=self.point, **prior)

    def tempered(self, temperature: float) -> RotatedGaussian:
        """Return the posterior to the power 1/temperature: the precision is divided by it, the mean stays."""
        temperature = float(temperature)
        if not 0 < temperature < math.inf:
            raise ValueError(f"temperature must be in (0, inf), got {temperature!r}")
        precision = {name: value / temperature for name, value in self.precision.items()}
        return replace(
            self,
            precision=precision,
            temperature=named_tensors.tempered(self.temperature, self.mean, temperature),
            tempered_by=named_tensors.tempered(self.tempered_by, self.mean, temperature),
        )

    def summary(self) -> Summary:
        """Return what the posterior is made of, with the standard deviation of each weight by itself; print it."""
        return Summary.of(self.mean, self.marginals().precision, self.shares, self.temperature)

    def to(self, *args: Any, **kwargs: Any) -> RotatedGaussian:
        """Return a copy on another device or in another dtype; the arguments are those of ``Tensor.to``."""
        fields = ("mean", "precision", "left", "right", "point", "prior_precision", "prior_mean")
        return replace(self, **{name: named_tensors.moved(getattr(self, name), *args, **kwargs) for name in fields})

    def _axes(self, name: str, dtype: torch.dtype | None = None) -> tuple[Tensor | None, Tensor | None]:
        """Return Q_L and Q_R of a weight in the given dtype, None for the identity."""
        axes = (self.left.get(name), self.right.get(name))
        left, right = (None if Q is None else named_tensors.wide(Q).to(dtype) for Q in axes)
        return left, right

    def _matrices(self, name: str, x: Tensor) -> Tensor:
        """Return stacked tensors of one weight, or vectors of its elements, as matrices."""
        shape = self.mean[name].shape
        lead = x.numel() // max(1, shape.numel())
        return x.reshape(lead, *matrix_shape(shape)) if lead != 1 else x.reshape(matrix_shape(shape))

    def _dense(self, name: str, along: Tensor) -> Tensor:
        """Return (Q_L ⊗ Q_R) diag(along) (Q_L ⊗ Q_R)ᵀ."""
        sides = matrix_shape(self.mean[name].shape)
        eyes = [torch.eye(n, dtype=along.dtype, device=along.device) for n in sides]
        left, right = (eye if Q is None else Q for eye, Q in zip(eyes, self._axes(name), strict=True))
        Q = torch.kron(left.contiguous(), right.contiguous())
        return (Q * along.flatten()) @ Q.mT

    def _kl(self, name: str, other: RotatedGaussian) -> Tensor:
        """Return ½ [tr(P Σ) + (μ − m)ᵀ P (μ − m) − D + log det Σ⁻¹ − log det P] of one tensor to N(m, P⁻¹)."""
        difference = named_tensors.wide(self.mean[name]) - named_tensors.wide(other.mean[name])
        dtype = torch.promote_types(difference.dtype, torch.result_type(self.precision[name], other.precision[name]))
        own, theirs = (self._matrices(name, q.precision[name].to(dtype)) for q in (self, other))
        QL, QR = self._axes(name, dtype)
        PL, PR = other._axes(name, dtype)
        variance = diagonal_in_basis(1 / own, relative(QL, PL), relative(QR, PR))
        away = self._matrices(name, difference.to(dtype))
        terms = theirs * variance + theirs * into_basis(away, PL, PR) ** 2 - 1 + own.log() - theirs.log()
        return 0.5 * terms.sum()

    def __repr__(self) -> str:
        return f"RotatedGaussian({self.num_weights:,} weights in {len(self.mean)} tensors, {len({*self.left, *self.right})} rotated)"


def _check_axes(field: str, side: int, axes: Weights, shapes: Mapping[str, torch.Size]) -> None:
    """Raise unless every matrix of axes is orthogonal and fits its side of a weight."""
    for name, Q in axes.items():
        if name not in shapes:
            raise ValueError(f"{field} names {name!r}, but the weights are {sorted(shapes)}")
        n = matrix_shape(shapes[name])[side]
        if Q.shape != (n, n):
            raise ValueError(f"the {field} axes of {name!r} must have shape {[n, n]}, not {list(Q.shape)}")
        wide = named_tensors.wide(Q)
        error = (wide.mT @ wide - torch.eye(n, dtype=wide.dtype, device=wide.device)).abs().max()
        if not bool(error < 1e-2):
            raise ValueError(
                f"the {field} axes of {name!r} are not orthogonal: QᵀQ differs from the identity by {float(error):.2g}"
            )
