"""A mixture of posteriors with equal weights, e.g. from different starts: q(θ) = 1/K Σₖ qₖ(θ)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vadam.gaussian import named_tensors
from vadam.gaussian.full import FullGaussian
from vadam.gaussian.mean_field import MeanFieldGaussian
from vadam.gaussian.named_tensors import Weights
from vadam.gaussian.rotated import RotatedGaussian


@dataclass(frozen=True, eq=False, repr=False)
class Mixture:
    """A mixture of K posteriors over the same weights. It has no entropy and KL, which have no closed form.

    >>> components = [MeanFieldGaussian({"w": torch.tensor([m])}, {"w": torch.tensor([1e6])}) for m in (-1.0, 1.0)]
    >>> sorted(set(Mixture(components).sample(100)["w"].flatten().round().tolist()))
    [-1.0, 1.0]
    """

    components: Sequence[MeanFieldGaussian | FullGaussian | RotatedGaussian]

    def __post_init__(self) -> None:
        object.__setattr__(self, "components", tuple(self.components))
        if not self.components:
            raise ValueError("a mixture needs at least one component")
        for component in self.components:
            if not isinstance(component, MeanFieldGaussian | FullGaussian | RotatedGaussian):
                raise TypeError(f"a component must be a Gaussian, got a {type(component).__name__}")
        shapes = _shapes(self.components[0])
        for k, component in enumerate(self.components):
            if _shapes(component) != shapes:
                raise ValueError(
                    f"component {k} is over other weights than component 0: {_shapes(component)} and {shapes}"
                )

    @property
    def num_weights(self) -> int:
        """Return the number of sampled weights."""
        return self.components[0].num_weights

    def sample(self, n: int | None = None, *, generator: torch.Generator | None = None) -> Weights:
        """Draw a random component, then weights from it; with ``n``, n draws stacked along a new first axis."""
        named_tensors.leading(n)
        K = len(self.components)
        device = None if generator is None else generator.device
        component = torch.randint(K, (n or 1,), generator=generator, device=device).cpu()
        counts = component.bincount(minlength=K).tolist()
        draws = [
            q.sample(count, generator=generator) for q, count in zip(self.components, counts, strict=True) if count
        ]
        position = component.argsort(stable=True).argsort()
        stacked = {name: torch.cat([draw[name] for draw in draws]) for name in draws[0]}
        return {name: values[position.to(values.device)] if n else values[0] for name, values in stacked.items()}

    def log_prob(self, sample: Mapping[str, Tensor]) -> Tensor:
        """Return log q(θ), one number for each of the stacked draws."""
        first, *others = (getattr(component, "pruned", {}) for component in self.components)
        if any(not named_tensors.prunes_alike(first, other) for other in others):
            raise ValueError(
                "log_prob of a mixture needs components that have pruned the same weights, whose densities are of the same kind: mix the "
                "posteriors that prune() was called on"
            )
        log_probs = torch.stack([component.log_prob(sample) for component in self.components])
        return log_probs.logsumexp(0) - math.log(len(self.components))

    def to(self, *args: Any, **kwargs: Any) -> Mixture:
        """Return the mixture on another device or in another dtype; the arguments are those of ``Tensor.to``."""
        return Mixture([component.to(*args, **kwargs) for component in self.components])

    def __repr__(self) -> str:
        return f"Mixture({len(self.components)} × {self.components[0]!r})"


def _shapes(post: MeanFieldGaussian | FullGaussian | RotatedGaussian) -> dict[str, torch.Size]:
    sampled = post.shapes if isinstance(post, FullGaussian) else named_tensors.shapes_of(post.mean)
    return {**sampled, **named_tensors.shapes_of(post.point)}
