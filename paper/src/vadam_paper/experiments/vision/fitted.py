"""A trained model that predicts: a network with draws of its weights, and baselines that are made from trained networks."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from vadam.baselines import MAP, LastLayerLaplace
from vadam.forward import Draws
from vadam.gaussian import FullGaussian, UninformedPosterior
from vadam.likelihoods import Categorical
from vadam.prediction import Classes, predict
from vadam_paper.experiments.vision.task import Task

BATCH = 500
"""Images of a forward pass; it affects only the speed."""


class Fitted(NamedTuple):
    """A network, its posterior (None for a single network), and the temperature that divides its logits.

    ``samples`` is the number of draws of a prediction where it is not that of the run.
    """

    model: nn.Module
    posterior: Any | None
    temperature: float = 1.0
    samples: int | None = None

    @property
    def is_point(self) -> bool:
        return self.posterior is None

    def drawn(self, samples: int, noise: torch.Generator) -> "Drawn":
        """Draw the weights once, for all predictions."""
        if self.posterior is None:
            point = MAP()
            point.model = self.model
            return Drawn(self.model, Draws(point, 1), self.temperature)
        with warnings.catch_warnings():  # while settings are compared, the start of a posterior may still be there
            warnings.simplefilter("ignore", UninformedPosterior)
            return Drawn(self.model, Draws(self.posterior, samples, generator=noise), self.temperature)


class Drawn(NamedTuple):
    """A network with weights that are drawn once."""

    model: nn.Module
    draws: Draws
    temperature: float

    def predict(self, X: Tensor, samples: int | None = None) -> Classes:
        found = predict(self.model, self.draws, X, samples, likelihood=Categorical(), batch_size=BATCH, vmap=False)
        assert isinstance(found, Classes)
        return found if self.temperature == 1.0 else Classes(found.samples / self.temperature, found.likelihood)


class Pool:
    """Several posteriors or networks with equal shares of the draws, one after another in turn."""

    def __init__(self, members: Sequence[Fitted]) -> None:
        self.members = members

    def sample(self, n: int, *, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        each = -(-n // len(self.members))
        drawn = [_weights(member, each, generator) for member in self.members]
        return {
            name: torch.stack([weights[name] for weights in drawn], 1).flatten(0, 1)[:n]  # members in turn
            for name in drawn[0]
        }


def _weights(member: Fitted, n: int, noise: torch.Generator | None) -> dict[str, Tensor]:
    if member.posterior is not None:
        found: dict[str, Tensor] = member.posterior.sample(n, generator=noise)
        return found
    return {name: p.detach().expand(n, *p.shape) for name, p in member.model.named_parameters()}


def pooled(members: Sequence[Fitted], samples: int) -> Fitted:
    """Return the ensemble of networks, or the mixture of posteriors with that many draws of each."""
    each = 1 if all(member.is_point for member in members) else samples
    return Fitted(members[0].model, Pool(members), samples=each * len(members))


def laplace_posteriors(model: nn.Module, task: Task, priors: Sequence[float]) -> list[FullGaussian]:
    """Return the last-layer Laplace approximation at a trained network for each precision of the prior.

    The curvature is computed once: precisions differ by a multiple of the identity.
    """
    laplace = LastLayerLaplace(prior_precision=1.0)
    laplace.fit(model, task.scale(task.train.X), task.train.y, Categorical(), epochs=0)
    found = laplace.posterior
    assert isinstance(found, FullGaussian)
    identity = torch.eye(len(found.mean))
    return [
        FullGaussian(found.mean, found.precision + (prior - 1.0) * identity, found.shapes, point=found.point)
        for prior in priors
    ]
