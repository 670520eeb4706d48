"""Return what an optimizer has learned: the posterior, and the names of its parameters."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn

from vadam.gaussian import MeanFieldGaussian, Summary
from vadam.gaussian.summary import settings
from vadam.optim.gradient_steps import GradientSteps
from vadam.optim.snapshot import mean_field, names


class PosteriorOptimizer(GradientSteps):
    """An optimizer that can be asked for the posterior q."""

    def posterior(self, model: nn.Module | None = None) -> MeanFieldGaussian:
        """Return a snapshot of q = N(mean, 1/precision), one entry per parameter.

        The names are the model's: of ``model``, or of the attached one, or as given by ``named_parameters()`` to the
        constructor; otherwise "0", "1", ... in the order of the parameters ("0.0", ... where there are several groups).
        """
        return mean_field(self, model)

    def summary(self, model: nn.Module | None = None) -> Summary:
        """Return what the posterior is made of: shares of prior, start and data in the precision, σ against |μ|; print it.

        A temperature or data_weight that is not 1 is shown too.
        """
        groups = [group for group in self.param_groups if not group["deterministic"]]
        values = {name: {group.get(name, 1.0) for group in groups} for name in ("temperature", "data_weight")}
        return replace(self.posterior(model).summary(), settings=settings(**values))

    def _name(self, p: Tensor) -> str:
        return f"parameter {names(self)[p]!r} of shape {tuple(p.shape)}"
