"""Deep ensembles (Lakshminarayanan et al. 2017): K networks from different starts, p(y | x) = 1/K Σₖ p(y | x, θₖ)."""

from __future__ import annotations

from functools import partial
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from vadam.baselines.map import MAP
from vadam.baselines.training import ModelOrFactory, Progress, TrainingOptions, require_fitted
from vadam.forward import arguments_of, copied, tensor_of
from vadam.interrupts import Uninterrupted
from vadam.likelihoods import Likelihood
from vadam.module_state import in_eval_mode


class DeepEnsemble:
    """An ensemble of K MAP networks, each with its own initial weights and order of the data.

    A prediction contains the output of every member once.

        network = lambda: nn.Sequential(nn.Linear(13, 50), nn.ReLU(), nn.Linear(50, 1))
        ensemble = DeepEnsemble(members=5).fit(network, X, y, vadam.Gaussian(noise_precision=10.0))
        prediction = vadam.predict(ensemble.model, ensemble, x, likelihood=vadam.Gaussian(noise_precision=10.0))
    """

    def __init__(self, members: int = 5, *, prior_precision: float = 1.0) -> None:
        if members < 1:
            raise ValueError(f"members must be at least 1, got {members}")
        self.members = [MAP(prior_precision) for _ in range(members)]

    @property
    def model(self) -> nn.Module | None:
        """Return the first network, for the ``model`` argument of ``vadam.predict``."""
        return self.members[0].model

    def fit(
        self,
        model: ModelOrFactory,
        X: Tensor,
        y: Tensor,
        likelihood: Likelihood,
        **options: Unpack[TrainingOptions],
    ) -> DeepEnsemble:
        """Train all members by ``MAP.fit`` with its options.

        ``model`` is a function that returns a new network at each call. ``progress`` counts the epochs of all members.
        """
        if isinstance(model, nn.Module):
            raise TypeError(
                "a deep ensemble trains several networks from different starts: pass a function that returns a new one, e.g. "
                f"lambda: {type(model).__name__}(...), not a module"
            )
        progress = options.get("progress")
        for k, member in enumerate(self.members):
            if progress is not None:
                options["progress"] = partial(_report_member, progress, k, len(self.members))
            member.fit(model, X, y, likelihood, **options)
        return self

    def outputs(self, x: Any, samples: int | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Return the outputs [K, B, ...] of all members, in evaluation mode; ``samples`` and ``generator`` are ignored."""
        arguments = arguments_of(x)
        networks = nn.ModuleList([require_fitted(member.model, self) for member in self.members])
        found: list[Tensor] = []
        with Uninterrupted() as signals, in_eval_mode(networks):
            for network in networks:
                args, kwargs = copied(arguments)
                found.append(tensor_of(network(*args, **kwargs)))
                signals.let_through()
        return torch.stack(found)


def _report_member(progress: Progress, member: int, members: int, done: int, epochs: int) -> None:
    progress(member * epochs + done, members * epochs)
