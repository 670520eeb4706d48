"""A Gaussian for every weight, independent of the others.

    q(θ) = Πᵢ N(θᵢ | μᵢ, σᵢ²),  σ⁻² = precision,  prior p(θ) = Πᵢ N(θᵢ | 0, 1/λᵢ)

Every optimizer but FullVON learns one of these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import torch
from torch import Tensor

from vadam.gaussian import named
from vadam.gaussian.named import PriorPrecision, Weights


@dataclass(frozen=True, eq=False, repr=False)
class MeanFieldGaussian:
    """μ, σ⁻² and λ by parameter name; ``point`` holds weights known exactly, ``prior_precision=None`` means no prior.

    λ is a number or a tensor that broadcasts to the weights. The tensors are copied: a posterior does not change when
    training goes on.

    >>> post = MeanFieldGaussian({"w": torch.zeros(2)}, {"w": torch.tensor([4.0, 4.0])}, prior_precision={"w": 1.0})
    >>> post.stddev["w"]
    tensor([0.5000, 0.5000])
    >>> post.sample(10)["w"].shape
    torch.Size([10, 2])
    >>> round(post.kl().item(), 4)  # 2 · ½ (log 4 + 1/4 − 1)
    0.6363
    """

    mean: Weights
    precision: Weights
    _: KW_ONLY
    point: Weights = field(default_factory=dict)
    prior_precision: PriorPrecision | None = None

    def __post_init__(self) -> None:
        named.check_shapes("precision", self.precision, named.shapes_of(self.mean))
        named.check_points(self.point, self.mean)
        named.check_prior(self.prior_precision, named.shapes_of(self.mean))
        for name, value in self.precision.items():
            wrong = value[~((value > 0) & value.isfinite())]
            if len(wrong):
                raise ValueError(
                    f"the precision of {name!r} must be positive and finite, but one is {wrong[0].item()!r}"
                )
        for name in ("mean", "precision", "point", "prior_precision"):
            object.__setattr__(self, name, named.copied(getattr(self, name)))

    @property
    def variance(self) -> Weights:
        return {name: 1 / value for name, value in self.precision.items()}

    @property
    def stddev(self) -> Weights:
        return {name: value.rsqrt() for name, value in self.precision.items()}

    @property
    def num_weights(self) -> int:
        """How many weights are sampled."""
        return sum(value.numel() for value in self.mean.values())

    def sample(self, n: int | None = None, *, generator: torch.Generator | None = None) -> Weights:
        """θ = μ + σ∘ε; with ``n``, n draws stacked along a new first axis. Point weights are expanded, not copied."""
        lead = named.leading(n)
        draws = {}
        for name, mu in self.mean.items():
            sigma = named.wide(self.precision[name]).rsqrt()
            epsilon = named.standard_normal((*lead, *mu.shape), like=sigma, generator=generator)
            draws[name] = epsilon.mul_(sigma).add_(mu).to(mu.dtype)
        return named.with_points(draws, self.point, lead)

    def log_prob(self, sample: Mapping[str, Tensor]) -> Tensor:
        """log q(θ), one number for each of the stacked draws."""
        theta = named.flattened(sample, named.shapes_of(self.mean), self.point)

        def log_density(name: str) -> Tensor:
            mu, precision = named.wide(self.mean[name]).flatten(), named.wide(self.precision[name]).flatten()
            return 0.5 * (precision.log() - math.log(2 * math.pi) - precision * (theta[name] - mu) ** 2).sum(-1)

        return named.total(log_density(name) for name in self.mean)

    def entropy(self) -> Tensor:
        """Σᵢ ½ log(2πe σᵢ²)."""
        return named.total(
            0.5 * (1 + math.log(2 * math.pi) - named.wide(p).log()).sum() for p in self.precision.values()
        )

    def kl(self) -> Tensor:
        """KL(q‖p) to the prior, in closed form."""
        lam = named.proper(self.prior_precision)
        return named.total(_kl(mu, self.precision[name], 0.0, lam[name]) for name, mu in self.mean.items())

    def kl_to(self, other: MeanFieldGaussian) -> Tensor:
        """KL(q‖other), in closed form."""
        if not isinstance(other, MeanFieldGaussian):
            raise TypeError(
                f"a MeanFieldGaussian compares with another, not with {type(other).__name__}; see FullGaussian.of"
            )
        named.check_shapes("other", other.mean, named.shapes_of(self.mean))
        return named.total(_kl(mu, self.precision[n], other.mean[n], other.precision[n]) for n, mu in self.mean.items())

    def symmetric_kl(self, other: MeanFieldGaussian) -> Tensor:
        """(KL(q‖other) + KL(other‖q))/2, the distance between posteriors in the paper's experiments."""
        return (self.kl_to(other) + other.kl_to(self)) / 2

    def flat(self) -> tuple[Tensor, Tensor]:
        """μ and σ⁻² as two vectors, the weights in the order of the names."""
        return _flat(self.mean), _flat(self.precision)

    def to(self, *args: Any, **kwargs: Any) -> MeanFieldGaussian:
        """The same on another device or in another dtype; the arguments are those of ``Tensor.to``."""
        fields = (self.mean, self.precision, self.point, self.prior_precision)
        mean, precision, point, prior = (named.moved(values, *args, **kwargs) for values in fields)
        return MeanFieldGaussian(mean, precision, point=point, prior_precision=prior)

    def __repr__(self) -> str:
        return f"MeanFieldGaussian({self.num_weights:,} weights in {len(self.mean)} tensors)"


def _kl(mu: Tensor, precision: Tensor, other_mu: Tensor | float, other_precision: Tensor | float) -> Tensor:
    """½ Σᵢ (log r − 1 + 1/r + p (μ − m)²) from N(μ, 1/precision) to N(m, 1/p), r = precision/p."""
    mu, precision = named.wide(mu), named.wide(precision)
    p = torch.as_tensor(other_precision, dtype=precision.dtype, device=precision.device)
    return 0.5 * (precision.log() - p.log() - 1 + p / precision + p * (mu - other_mu) ** 2).sum()


def _flat(weights: Weights) -> Tensor:
    return torch.cat([value.flatten() for value in weights.values()])
