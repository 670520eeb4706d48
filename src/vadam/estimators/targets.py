"""Monotone transforms of the target, and predictions of the target itself from predictions of the transformed one.

    log        z = log y, for positive targets that spread over several sizes
    quantile   z = Φ⁻¹(rank of y), linear between the quantiles of the training targets, for all other odd shapes

The density, the distribution function and the quantiles follow exactly; moments are integrals over the noise of every
component, by Gauss-Hermite quadrature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import special
from torch import Tensor

from vadam.likelihoods import as_numbers, like_output
from vadam.metrics.real import crps
from vadam.prediction import Regression

KNOTS = 100
FEWEST_KNOTS = 5
"""Number of different quantiles below which nearly all targets are equal, so that a transform by quantiles would not help."""
NODES = 31
FLOATS_AT_ONCE = 2**23
FAR = 1.0
"""Largest distance of a prediction from the range of the training targets, in widths of that range; beyond it the inverse explodes."""


@dataclass(frozen=True)
class Transform:
    """A piecewise linear, increasing function, or the logarithm if there are no knots."""

    y: tuple[float, ...] = ()
    z: tuple[float, ...] = ()
    low: float = -np.inf
    high: float = np.inf

    @property
    def kind(self) -> str:
        return "quantile" if self.y else "log"

    @classmethod
    def fit(cls, kind: str, y: np.ndarray) -> Transform:
        """Return the transform of a kind for training targets."""
        width = FAR * (y.max() - y.min())
        if kind == "log":
            return cls(low=0.0, high=float(y.max() + width))
        probability = (np.arange(KNOTS) + 0.5) / KNOTS
        values, first = np.unique(np.quantile(y, probability), return_index=True)
        if len(values) < 2:
            raise ValueError(
                f"target_transform='quantile' needs targets that differ, but nearly all are {values[0]:g}: choose 'auto' or 'none'"
            )
        z = torch.special.ndtri(torch.tensor(probability)).numpy()[first]
        return cls(tuple(values.tolist()), tuple(z.tolist()), float(y.min() - width), float(y.max() + width))

    @staticmethod
    def candidates(y: np.ndarray) -> list[str]:
        """Return the transforms that may help targets of this shape: none for most."""
        if y.ndim > 1 or len(y) < 50:
            return []
        standard = (y - y.mean()) / (y.std() or 1.0)
        skewed = abs((standard**3).mean()) > 1.0
        heavy = (standard**4).mean() > 6.0
        quantiles = np.unique(np.quantile(y, (np.arange(KNOTS) + 0.5) / KNOTS))
        distinct = len(np.unique(y)) > 20 and len(quantiles) >= FEWEST_KNOTS
        found = ["log"] if y.min() > 0 and skewed and y.max() / y.min() > 5 else []
        return [*found, *(["quantile"] if (skewed or heavy) and distinct else [])]

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Return z."""
        return self.of(torch.from_numpy(np.array(y, dtype=np.float64))).numpy()

    def of(self, y: Tensor) -> Tensor:
        """Return z of tensors; −∞ for the logarithm of what is not positive."""
        if not self.y:
            return torch.where(y <= 0, torch.zeros_like(y), y).log()
        return _interpolated(y, *self._knots(y))

    def inverse(self, z: Tensor) -> Tensor:
        """Return y, clipped to a neighbourhood of the training targets."""
        y = z.exp() if not self.y else _interpolated(z, *reversed(self._knots(z)))
        return y.clamp(self.low, self.high)

    def log_slope(self, y: Tensor) -> Tensor:
        """Return log dz/dy, by which the density of y differs from that of z."""
        if not self.y:
            return -torch.where(y <= 0, torch.ones_like(y), y).log()
        knots, values = self._knots(y)
        place = (torch.searchsorted(knots, y.contiguous()) - 1).clamp(0, len(knots) - 2)
        return ((values[1:] - values[:-1]) / (knots[1:] - knots[:-1])).log()[place]

    def _knots(self, like: Tensor) -> tuple[Tensor, Tensor]:
        return torch.tensor(self.y, dtype=like.dtype), torch.tensor(self.z, dtype=like.dtype)

    def as_dict(self) -> dict[str, Any]:
        """Return the transform as JSON's types."""
        return {"y": list(self.y), "z": list(self.z), "low": self.low, "high": self.high}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Transform:
        """Return the transform that ``as_dict`` has written."""
        return cls(
            tuple(map(float, saved["y"])), tuple(map(float, saved["z"])), float(saved["low"]), float(saved["high"])
        )


@dataclass(frozen=True, eq=False, repr=False)
class TransformedRegression(Regression):
    """The prediction of y from that of z; ``samples`` are the outputs for z."""

    transform: Transform = Transform()

    @property
    def aleatoric(self) -> Tensor:
        """Return the standard deviation of the noise."""
        return self._moments()[1].mean(0).sqrt()

    @property
    def variance(self) -> Tensor:
        means, variances = self._moments()
        return means.var(0, correction=0) + variances.mean(0)

    def cdf(self, y: Tensor) -> Tensor:
        """Return P(Y ≤ y)."""
        return self._transformed.cdf(self.transform.of(as_numbers(y)))

    def quantile(self, q: float | Tensor) -> Tensor:
        """Return the y with P(Y ≤ y) = q."""
        return self.transform.inverse(self._transformed.quantile(q))

    def log_prob_samples(self, y: Tensor) -> Tensor:
        """Return log p(yᵢ | xᵢ, θₛ), [S, B]."""
        y = as_numbers(y)
        slope = self.transform.log_slope(like_output(y, self._numbers.mean(self.samples[0])))
        return super().log_prob_samples(self.transform.of(y)) + slope.flatten(1).sum(1)

    def draw(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw one y for every draw of the weights."""
        return self.transform.inverse(super().draw(generator))

    def crps(self, y: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the mean of the continuous ranked probability score, from one draw of y for each draw of the weights."""
        return crps(self.draw(generator), y)

    @property
    def _transformed(self) -> Regression:
        """Return the prediction of z."""
        return Regression(self.samples, self.likelihood)

    @property
    def _means(self) -> Tensor:
        return self._moments()[0]

    def _moments(self) -> tuple[Tensor, Tensor]:
        """Return mean and variance of y for every draw of the weights."""
        if "moments" not in self.__dict__:
            object.__setattr__(self, "moments", self._computed_moments())
        moments: tuple[Tensor, Tensor] = self.__dict__["moments"]
        return moments

    def _computed_moments(self) -> tuple[Tensor, Tensor]:
        from vadam.likelihoods import InputNoiseStudentT

        mean, log_scale = self.samples.chunk(2, dim=-1)
        normal, shares = np.polynomial.hermite_e.hermegauss(NODES)
        weights = torch.from_numpy(shares / shares.sum()).to(mean.dtype)
        noise = normal
        if isinstance(self.likelihood, InputNoiseStudentT):
            noise = -np.sign(normal) * special.stdtrit(self.likelihood.dof, special.ndtr(-np.abs(normal)))
        nodes = torch.from_numpy(noise).to(mean.dtype)
        parts = []
        rows = max(1, FLOATS_AT_ONCE // (len(mean) * NODES))
        for first in range(0, mean.shape[1], rows):
            m, scale = mean[:, first : first + rows, :, None], log_scale[:, first : first + rows, :, None].exp()
            y = self.transform.inverse(m + scale * nodes)
            centre = (y * weights).sum(-1)
            parts.append((centre, ((y - centre.unsqueeze(-1)) ** 2 * weights).sum(-1)))
        means, variances = zip(*parts, strict=True)
        return torch.cat(means, dim=1), torch.cat(variances, dim=1)


def _interpolated(x: Tensor, knots: Tensor, values: Tensor) -> Tensor:
    """Return the piecewise linear function through the knots, continued straight beyond them."""
    place = (torch.searchsorted(knots, x.contiguous()) - 1).clamp(0, len(knots) - 2)
    slope = (values[1:] - values[:-1]) / (knots[1:] - knots[:-1])
    return values[place] + slope[place] * (x - knots[place])
