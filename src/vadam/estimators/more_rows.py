"""Train on with new rows of a table: the posterior of the rows before is the prior.

With a mean curvature h of N rows, the posterior at the temperature T should have the precision (λ + N h)/T. Trainings hold another
amount w of the curvature: Vadam averages gradients before it squares them (Theorem 1), and squares at wide samples are large. As

    λ/T + w N h/T = (1 − w) λ/T + (λ + N h)/T',  T' = T/w

the rows before are worth (λ + N h)/T' at the temperature T', at which new rows are trained on; (1 − w) λ/T is there to sample with. So
predictions stay as wide as when they were calibrated. w is found by measuring h: draw targets from the networks with their
mean weights and square the gradients of single rows, whose expectation is the Fisher information.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from vadam.ensemble import Method, Stack
from vadam.ensemble.engine import Examples, choose
from vadam.gaussian import MeanFieldGaussian
from vadam.likelihoods import LOG_NOISE_BOUND

DRAWN_TARGETS = 2_000
"""Number of targets that h is measured with."""
ROWS_A_BLOCK = 250
LEAST_BATCHES = 4
"""Number of minibatches that new rows are cut into at least: the square of the gradient of all of them says nothing about each."""


@dataclass(frozen=True)
class Earlier:
    """The measure of new rows: the amount w of the curvature in the precision, and the mean of the sample weights before."""

    amount: float
    mean_weight: float

    def __post_init__(self) -> None:
        for name, value in (("amount", self.amount), ("mean_weight", self.mean_weight)):
            if not 0 < value < math.inf:
                raise ValueError(f"{name} of the earlier rows must be a finite number above 0, got {value!r}")

    @classmethod
    def of(
        cls,
        stack: Stack,
        method: Method,
        x: Tensor,
        weight: np.ndarray | None,
        *,
        prior_precision: float,
        temperature: float,
    ) -> Earlier:
        """Return these numbers for a stack trained by a method on the standardised inputs ``x`` [n, ...]."""
        assert stack.precision is not None
        held = sum(float((value * temperature - prior_precision).sum()) for value in stack.precision.values())
        measured = method.settings["data_weight"] * len(x) * curvature(stack, x, weight)
        amount = held / measured if measured > 0 and held > 0 else 1.0
        return cls(amount, mean_of(weight))


@dataclass(frozen=True)
class Update:
    """The training on new rows.

    Attributes:
        method: as of the fit, but for the weight of the rows and what is sampled with.
        batch_size: M, small enough that squares of averages say something about a row.
        temperature: T' of this training.
        extra: (1 − w) λ/T, the part of the precision that is only there to sample with.
        least: λ/T', the precision that the rows before leave to a weight of which they say nothing.
        rows: number of the new rows, each as often as its weights say.
        fitted_prior: λ/T of the fit.
    """

    method: Method
    batch_size: int
    temperature: float
    extra: float
    least: float
    rows: float
    fitted_prior: float

    @classmethod
    def of(
        cls,
        method: Method,
        earlier: Earlier,
        *,
        rows: int,
        batch_size: int,
        weight: np.ndarray | None,
        prior_precision: float,
        temperature: float,
    ) -> Update:
        """Return the training on some rows after a fit with this method, prior precision and temperature."""
        w, prior = earlier.amount, prior_precision / temperature
        extra = (1 - w) * prior
        batch_size = max(1, min(batch_size, rows // LEAST_BATCHES))
        data_weight = method.settings["data_weight"] * mean_of(weight) / earlier.mean_weight
        settings = {"data_weight": data_weight}
        if "sampling_precision" in method.settings:
            settings["sampling_precision"] = method.settings["sampling_precision"] + max(0.0, extra)
        if method.settings.get("batch_size") is not None:
            settings["batch_size"] = batch_size if rows > 1 else None
        return cls(method.replace(**settings), batch_size, temperature / w, extra, w * prior, data_weight * rows, prior)

    @property
    def numbers(self) -> dict[str, float]:
        """Return what differs from the fit in a member. The posterior replaces the prior, which is only compared with the start."""
        return {"temperature": self.temperature, "prior_precision": self.fitted_prior * self.temperature}

    def prior(self, stack: Stack, member: int) -> MeanFieldGaussian:
        """Return the posterior of a member as the prior of new rows, at the temperature of this training."""
        post = stack.posterior(member)
        return replace(
            post,
            precision={name: (value - self.extra).clamp_min(self.least) for name, value in post.precision.items()},
            prior_precision=None,
            prior_mean=None,
            temperature=dict.fromkeys(post.mean, self.temperature),
        )

    def result(self, trained: Stack, before: Stack, x: Tensor, weight: np.ndarray | None) -> Stack:
        """Return the stack after the training on the standardised inputs ``x``, in the units of the fit.

        What the new rows add to the precision is scaled to be their measured curvature.
        """
        assert trained.precision is not None
        assert before.precision is not None
        added = {name: value + self.extra - before.precision[name] for name, value in trained.precision.items()}
        more = sum(float(value.clamp_min(0).sum()) for value in added.values())
        less = sum(float(value.clamp_max(0).sum()) for value in added.values())
        measured = self.rows * curvature(trained, x, weight) / self.temperature
        scale = max(0.0, measured - less) / more if more > 0 else 1.0
        precision = {
            name: before.precision[name] + scale * value.clamp_min(0) + value.clamp_max(0)
            for name, value in added.items()
        }
        return replace(trained, precision=precision, scaling=before.scaling, temperature=before.temperature)


def mean_of(weight: np.ndarray | None) -> float:
    """Return the mean of the weights of rows; 1 where none are given."""
    return 1.0 if weight is None else float(np.mean(weight))


def curvature(stack: Stack, x: Tensor, weight: np.ndarray | None = None) -> float:
    """Return the mean diagonal Fisher information of the rows ``x`` [n, ...] at the means, summed over weights and members."""
    generator = torch.Generator().manual_seed(0)
    engine = choose(stack.engine, stack.network, stack.likelihood)
    theta = {name: value.unsqueeze(1) for name, value in stack.mean.items()}
    dtype, E, n = next(iter(theta.values())).dtype, len(stack), len(x)
    rows = torch.arange(DRAWN_TARGETS) * max(n, DRAWN_TARGETS) // DRAWN_TARGETS % n
    counts = torch.ones(n) if weight is None else torch.from_numpy(weight / weight.mean())
    total = 0.0
    for block in rows.split(ROWS_A_BLOCK):
        inputs = x[block].to(dtype).expand(E, -1, *x.shape[1:])
        y = drawn_targets(stack, engine.outputs(theta, inputs)[:, 0], generator)
        share = (counts[block] / DRAWN_TARGETS).to(dtype).expand(E, -1)
        _, squares = engine.gradients(theta, Examples(inputs, y, share, stack.noise_precision), squares=True)
        total += sum(float(value.double().sum()) for value in squares.values())
    return total


def drawn_targets(stack: Stack, f: Tensor, generator: torch.Generator) -> Tensor:
    """Return targets [E, M, O], classes one-hot, drawn at the outputs ``f``."""
    if stack.likelihood == "bernoulli":
        return torch.bernoulli(f.sigmoid(), generator=generator)
    if stack.likelihood == "categorical":
        number = torch.multinomial(f.softmax(-1).flatten(0, 1), 1, generator=generator)
        return torch.zeros_like(f).flatten(0, 1).scatter(1, number, 1).view_as(f)
    mean, scale = f, stack.noise_precision[:, None, None].rsqrt()
    if stack.likelihood == "input-noise":
        mean, log_std = f.chunk(2, dim=-1)
        scale = scale * log_std.clamp(-LOG_NOISE_BOUND, LOG_NOISE_BOUND).exp()
    return mean + scale * torch.randn(mean.shape, generator=generator, dtype=f.dtype)
