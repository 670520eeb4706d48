"""A Gaussian for every weight, independent of the others.

    q(θ) = Πᵢ N(θᵢ | μᵢ, σᵢ²),  σ⁻² = precision,  prior p(θ) = Πᵢ N(θᵢ | μ₀ᵢ, 1/λᵢ)

Every optimizer but FullVON and EVON learns one of these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from vadam.gaussian import named_tensors
from vadam.gaussian.named_tensors import PriorMean, PriorPrecision, Weights
from vadam.gaussian.summary import Shares, Summary


@dataclass(frozen=True, eq=False, repr=False)
class MeanFieldGaussian:
    """Means, precisions and the prior by parameter name: a snapshot that further training does not change.

    Args:
        mean: the means μ.
        precision: the precisions σ⁻².
        point: deterministic weights.
        prior_precision: the prior's precisions λ, numbers or tensors that broadcast to the weights; None for no prior.
        prior_mean: the prior's means μ₀, likewise; None for zero.
        pruned: masks that are True where a weight is pruned: it is exactly zero and no longer sampled.
        shares: the fractions of the precision that come from the prior and the start, for ``summary()``; optimizers set it.
        temperature: temperatures that the precisions are divided by, 1 where none is given; optimizers set it.
        tempered_by: the factors of these that ``tempered()`` has added since the training, 1 where none is given.

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
    prior_mean: PriorMean | None = None
    pruned: Weights = field(default_factory=dict)
    shares: dict[str, Shares] = field(default_factory=dict)
    temperature: dict[str, float] = field(default_factory=dict)
    tempered_by: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shapes = named_tensors.shapes_of(self.mean)
        named_tensors.check_real(mean=self.mean, precision=self.precision)
        named_tensors.check_shapes("precision", self.precision, shapes)
        named_tensors.check_points(self.point, self.mean)
        named_tensors.check_prior(self.prior_precision, self.prior_mean, shapes)
        named_tensors.check_pruned(self.pruned, shapes)
        named_tensors.check_positive(self.precision)
        object.__setattr__(self, "precision", {name: self.precision[name] for name in self.mean})  # in the same order
        for name in ("mean", "precision", "point", "prior_precision", "prior_mean", "pruned"):
            object.__setattr__(self, name, named_tensors.copied(getattr(self, name)))
        for name, mask in self.pruned.items():
            self.mean[name][mask] = 0

    @property
    def variance(self) -> Weights:
        """Return the variances σ² by name."""
        return {name: 1 / value for name, value in self.precision.items()}

    @property
    def stddev(self) -> Weights:
        """Return the standard deviations σ by name."""
        return {name: value.rsqrt() for name, value in self.precision.items()}

    @property
    def num_weights(self) -> int:
        """Return the number of sampled weights."""
        pruned = sum(int(mask.sum()) for mask in self.pruned.values())
        return sum(value.numel() for value in self.mean.values()) - pruned

    def sample(self, n: int | None = None, *, generator: torch.Generator | None = None) -> Weights:
        """Draw θ = μ + σ∘ε; with ``n``, n draws stacked along a new first axis.

        Deterministic weights are expanded, not copied.
        """
        lead = named_tensors.leading(n)
        draws = {}
        for name, mu in self.mean.items():
            sigma = named_tensors.wide(self.precision[name]).rsqrt()
            epsilon = named_tensors.standard_normal((*lead, *mu.shape), like=sigma, generator=generator)
            draws[name] = epsilon.mul_(sigma).add_(mu).to(mu.dtype)
            if name in self.pruned:
                draws[name].masked_fill_(self.pruned[name], 0)
        return named_tensors.with_points(draws, self.point, lead)

    def log_prob(self, sample: Mapping[str, Tensor]) -> Tensor:
        """Return log q(θ), one number for each of the stacked draws; −inf where a pruned weight is not zero."""
        theta = named_tensors.flattened(sample, named_tensors.shapes_of(self.mean), self.point)

        def log_density(name: str) -> Tensor:
            mu, precision = (
                named_tensors.wide(self.mean[name]).flatten(),
                named_tensors.wide(self.precision[name]).flatten(),
            )
            terms = 0.5 * (precision.log() - math.log(2 * math.pi) - precision * (theta[name] - mu) ** 2)
            if name in self.pruned:
                mask = self.pruned[name].flatten()
                terms = torch.where(mask, torch.where(theta[name] == 0, 0.0, -math.inf).to(terms), terms)
            return terms.sum(-1)

        return named_tensors.total(log_density(name) for name in self.mean)

    def entropy(self) -> Tensor:
        """Return the entropy Σᵢ ½ log(2πe σᵢ²) in nats."""
        constant = 1 + math.log(2 * math.pi)
        return named_tensors.total(
            0.5 * self._kept(name, constant - named_tensors.wide(p).log()).sum() for name, p in self.precision.items()
        )

    def kl(self) -> Tensor:
        """Return KL(q‖p) to the prior in nats, in closed form."""
        lam, mu0 = named_tensors.proper(self.prior_precision), self.prior_mean or {}
        return named_tensors.total(self._kl(name, mu0.get(name, 0.0), lam[name]) for name in self.mean)

    def kl_to(self, other: MeanFieldGaussian) -> Tensor:
        """Return KL(q‖other) in nats, in closed form; weights that both or this one alone have pruned do not count."""
        self._check_comparable(other)
        for name, mask in other.pruned.items():
            if bool((mask & ~self._is_pruned(name)).any()):
                raise ValueError(
                    f"KL to a posterior that has pruned weights of {name!r}, which this one samples, is infinite: compare by distance()"
                )
        return named_tensors.total(self._kl(name, other.mean[name], other.precision[name]) for name in self.mean)

    def symmetric_kl(self, other: MeanFieldGaussian) -> Tensor:
        """Return (KL(q‖other) + KL(other‖q))/2, the distance between posteriors in the paper's experiments."""
        return (self.kl_to(other) + other.kl_to(self)) / 2

    def distance(self, other: MeanFieldGaussian) -> Tensor:
        """Return the Wasserstein distance √Σᵢ ((μᵢ − μ'ᵢ)² + (σᵢ − σ'ᵢ)²), a metric between Gaussians; a pruned weight has μ = σ = 0."""
        self._check_comparable(other)

        def deviation(post: MeanFieldGaussian, name: str) -> Tensor:
            return post._kept(name, named_tensors.wide(post.precision[name]).rsqrt())

        def squared(name: str) -> Tensor:
            between = named_tensors.wide(self.mean[name]) - named_tensors.wide(other.mean[name])
            return (between**2 + (deviation(self, name) - deviation(other, name)) ** 2).sum()

        return named_tensors.total(squared(name) for name in self.mean).sqrt()

    def snr(self) -> Weights:
        """Return the signal-to-noise ratios |μ|/σ by name; a large one means that a weight is surely not zero."""
        return {name: mu.abs() * self.precision[name].sqrt().to(mu.dtype) for name, mu in self.mean.items()}

    def prune(self, fraction: float, *, by: str = "snr") -> tuple[Weights, MeanFieldGaussian]:
        """Set the given fraction of the sampled weights to zero, those with the lowest score over all tensors together.

        Weights that are pruned already stay so and do not count.

        ``by``: "snr" for |μ|/σ, "magnitude" for |μ|. Return masks that are 1 where a weight is kept, as
        ``torch.nn.utils.prune.custom_from_mask`` takes them, and the pruned posterior.
        """
        if not 0 <= fraction < 1:
            raise ValueError(f"fraction must be in [0, 1), got {fraction!r}")
        if by not in ("snr", "magnitude"):
            raise ValueError(f"by must be 'snr' or 'magnitude', got {by!r}")
        scores = self.snr() if by == "snr" else {name: mu.abs() for name, mu in self.mean.items()}
        flat = named_tensors.end_to_end(named_tensors.wide(score).cpu() for score in scores.values())
        pruned = named_tensors.end_to_end(self._is_pruned(name).cpu() for name in scores).bool()
        sampled = (~pruned).nonzero().flatten()
        pruned[sampled[flat[sampled].argsort(stable=True)[: round(fraction * len(sampled))]]] = True
        parts = zip(scores.items(), pruned.split([score.numel() for score in scores.values()]), strict=True)
        masks = {name: part.view(score.shape).to(score.device) for (name, score), part in parts}
        return {name: (~mask).to(scores[name].dtype) for name, mask in masks.items()}, replace(self, pruned=masks)

    def tempered(self, temperature: float) -> MeanFieldGaussian:
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

    @staticmethod
    def merge(posteriors: Sequence[MeanFieldGaussian]) -> MeanFieldGaussian:
        """Return the posterior of all data, given posteriors of parts of the data that share one prior.

        The precisions add up, with the prior counted once: P = Σₖ Pₖ − (K − 1) λ and P μ = Σₖ Pₖ μₖ − (K − 1) λ μ₀; at a
        temperature T, λ/T in the place of λ. Point weights are averaged. A weight that one part has pruned is pruned.
        """
        return _merged(list(posteriors))

    def summary(self) -> Summary:
        """Return what the posterior is made of: shares of prior, start and data in the precision, σ against |μ|; print it."""
        return Summary.of(self.mean, self.precision, self.shares, self.temperature)

    def flat(self) -> tuple[Tensor, Tensor]:
        """Return the means and the precisions as two vectors, in the order of the names."""
        return named_tensors.end_to_end(self.mean.values()), named_tensors.end_to_end(self.precision.values())

    def to(self, *args: Any, **kwargs: Any) -> MeanFieldGaussian:
        """Return a copy on another device or in another dtype; the arguments are those of ``Tensor.to``."""
        fields = ("mean", "precision", "point", "prior_precision", "prior_mean")
        moved = {name: named_tensors.moved(getattr(self, name), *args, **kwargs) for name in fields}
        pruned = {name: mask.to(moved["mean"][name].device) for name, mask in self.pruned.items()}
        return replace(self, **moved, pruned=pruned)

    def _check_comparable(self, other: MeanFieldGaussian) -> None:
        if not isinstance(other, MeanFieldGaussian):
            raise TypeError(
                f"a MeanFieldGaussian compares with another, not with {type(other).__name__}; see FullGaussian.of"
            )
        named_tensors.check_shapes("other", other.mean, named_tensors.shapes_of(self.mean))

    def _is_pruned(self, name: str) -> Tensor:
        """Return a mask that is True where a weight is pruned."""
        mask = self.pruned.get(name)
        return torch.zeros_like(self.mean[name], dtype=torch.bool) if mask is None else mask

    def _kept(self, name: str, terms: Tensor) -> Tensor:
        """Return terms of a sum over weights, zero where a weight is pruned."""
        mask = self.pruned.get(name)
        return terms if mask is None else terms.masked_fill(mask, 0)

    def _kl(self, name: str, mean: Tensor | float, precision: Tensor | float) -> Tensor:
        """Return ½ Σᵢ (log r − 1 + 1/r + p (μ − m)²) to N(m, 1/p) over one tensor, r = own precision/p."""
        mu, own = named_tensors.wide(self.mean[name]), named_tensors.wide(self.precision[name])
        p = torch.as_tensor(precision, dtype=own.dtype, device=own.device)
        terms = own.log() - p.log() - 1 + p / own + p * (mu - mean) ** 2
        return 0.5 * self._kept(name, terms).sum()

    def __repr__(self) -> str:
        return f"MeanFieldGaussian({self.num_weights:,} weights in {len(self.mean)} tensors)"


def _merged(posteriors: list[MeanFieldGaussian]) -> MeanFieldGaussian:
    if not posteriors:
        raise ValueError("merge() needs at least one posterior")
    first, K = posteriors[0], len(posteriors)
    for other in posteriors[1:]:
        first._check_comparable(other)
        named_tensors.check_names("a posterior's points", other.point, first.point)
    lam = named_tensors.common_prior([post.prior_precision for post in posteriors], "prior_precision")
    mu0 = named_tensors.common_prior([post.prior_mean for post in posteriors], "prior_mean")
    if lam is None:
        raise ValueError(
            "merge() counts the prior once, but these posteriors have none: build them with prior_precision"
        )
    temperature = {name: _common_temperature(name, posteriors) for name in first.mean}
    mean, precision = {}, {}
    for name, mu in first.mean.items():
        prior, prior_mean = lam[name] / temperature[name], 0.0 if mu0 is None else mu0[name]
        total = torch.stack([named_tensors.wide(post.precision[name]) for post in posteriors]).sum(0) - (K - 1) * prior
        if not bool((total > 0).all()):
            raise ValueError(
                f"merge(): posteriors of {name!r} are so much wider than the prior that the merged precision is not positive: leave out "
                "those whose precision is below the prior's"
            )
        pulls = [named_tensors.wide(post.precision[name]) * named_tensors.wide(post.mean[name]) for post in posteriors]
        pull = torch.stack(pulls).sum(0) - (K - 1) * prior * prior_mean
        mean[name], precision[name] = (pull / total).to(mu.dtype), total.to(first.precision[name].dtype)
    point = {name: torch.stack([post.point[name] for post in posteriors]).mean(0) for name in first.point}
    names = {name for post in posteriors for name in post.pruned}
    pruned = {name: torch.stack([post._is_pruned(name) for post in posteriors]).any(0) for name in names}
    tempered_alike = all(post.tempered_by == first.tempered_by for post in posteriors)
    prior_of_all = {"prior_precision": lam, "prior_mean": mu0, "temperature": temperature}
    prior_of_all["tempered_by"] = first.tempered_by if tempered_alike else {}
    return MeanFieldGaussian(mean, precision, point=point, pruned=pruned, **prior_of_all)


def _common_temperature(name: str, posteriors: list[MeanFieldGaussian]) -> float:
    found = [post.temperature.get(name, 1.0) for post in posteriors]
    if any(not math.isclose(T, found[0]) for T in found):
        raise ValueError(f"merge() needs posteriors of one temperature, got {found} for {name!r}: see tempered()")
    return found[0]
