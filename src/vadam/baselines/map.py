"""Maximum a posteriori: the most probable network, θ* = argmin Σᵢ −log p(yᵢ | xᵢ, θ) + ½ λ‖θ‖²."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from vadam.baselines.training import ModelOrFactory, Progress, build_model, check_positive, require_fitted, train
from vadam.likelihoods import Likelihood


class MAP:
    """Adam on the mean negative log-likelihood, with the prior N(0, 1/λ) as weight decay λ/N.

    It is a posterior for ``vadam.predict`` whose samples all equal θ*.

        baseline = MAP(prior_precision=1.0).fit(model, X, y, vadam.Gaussian(noise_precision=10.0))
        prediction = vadam.predict(baseline.model, baseline, x, likelihood=vadam.Gaussian(noise_precision=10.0))
    """

    model: nn.Module | None = None

    def __init__(self, prior_precision: float = 1.0) -> None:
        self.prior_precision = check_positive("prior_precision", prior_precision)

    def fit(
        self,
        model: ModelOrFactory,
        X: Tensor,
        y: Tensor,
        likelihood: Likelihood,
        *,
        epochs: int = 40,
        batch_size: int = 32,
        lr: float = 1e-2,
        generator: torch.Generator | None = None,
        progress: Progress | None = None,
    ) -> MAP:
        """Train ``model`` in place, or a new one if it is a factory, and leave it in evaluation mode."""
        self.model = build_model(model, generator)
        weights = [p for p in self.model.parameters() if p.requires_grad]
        train(
            self.model, [(weights, self.prior_precision)], X, y, likelihood,
            epochs=epochs, batch_size=batch_size, lr=lr, generator=generator, progress=progress,
        )  # fmt: skip
        return self

    def sample(self, n: int | None = None, *, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        lead = () if n is None else (n,)
        named = require_fitted(self.model, self).named_parameters()
        return {name: p.detach().clone().expand(*lead, *p.shape) for name, p in named}
