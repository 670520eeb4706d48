"""Predictions with uncertainty: the network's outputs averaged over draws of its weights from the posterior.

    p(y | x) = ∫ p(y | f(x; θ)) q(θ) dθ ≈ 1/S Σₛ p(y | f(x; θₛ)),  θₛ ~ q

A prediction keeps the outputs f(x; θₛ) and computes its answers from them. Epistemic uncertainty, which more data
would reduce, is the spread of f over the draws. Aleatoric uncertainty is the noise of the likelihood.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from vadam.forward import Draws, OutputSampler, WeightSampler, sampled_outputs
from vadam.gaussian.summary import warn_if_uninformed
from vadam.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    InputNoiseGaussian,
    Likelihood,
    NumberLikelihood,
    as_tensor,
    like_output,
)
from vadam.metrics.real import crps
from vadam.special import find_root


class MissingLikelihood(UserWarning):
    """Warns that a prediction describes the network's outputs only: no noise, and no probabilities of classes."""


class _NotGiven:
    def __repr__(self) -> str:
        return "not given"


NOT_GIVEN: Final = _NotGiven()


def predict(
    model: nn.Module,
    post: WeightSampler | OutputSampler,
    x: Any,
    samples: int | None = None,
    *,
    likelihood: Likelihood | _NotGiven | None = NOT_GIVEN,
    batch_size: int | None = None,
    generator: torch.Generator | None = None,
    vmap: bool | None = None,
) -> Prediction:
    """Return the prediction at ``x``, with the same ``samples`` draws of the weights for every input.

    ``x``: a tensor, a tuple (the model's arguments), a dict (its keyword arguments), or an iterable of such batches. A
    ``DataLoader`` of (x, y) pairs works too: targets that the model does not take are left out. An output with ``logits``, as
    Hugging Face models return, stands for them.
    ``post``: a posterior with ``sample`` (weights that it does not name keep the model's value) or with ``outputs``, or
    ``Draws(post, 64)``, weights that are drawn once and used in many calls.
    ``samples``: the number of draws, 64 by default.
    ``likelihood``: ``Categorical`` gives a :class:`Classes`, ``Bernoulli`` a :class:`Binary`, likelihoods of numbers (``Gaussian``,
    ``InputNoiseGaussian``, ``StudentT``, ``Poisson``, ``NegativeBinomial``) a :class:`Regression`. None asks for a
    :class:`Regression` of the function values, without noise; leaving the argument out does the same and warns.
    ``batch_size``: split the inputs into batches; draws and result stay the same.
    ``vmap``: None uses it where it is faster and falls back to one draw at a time; True and False force the choice.

    The model runs in evaluation mode, without gradients. Afterwards its mode is restored.

    >>> from vadam.gaussian import MeanFieldGaussian
    >>> post = MeanFieldGaussian({"weight": torch.ones(1, 1)}, {"weight": torch.full((1, 1), 4.0)})
    >>> model = nn.Linear(1, 1, bias=False)
    >>> pred = predict(model, post, torch.tensor([[0.0], [2.0]]), likelihood=Gaussian(noise_precision=1.0))
    >>> pred.std[0].item()  # at 0 the function is known, so there is only noise
    1.0
    """
    if samples is None:
        samples = len(post) if isinstance(post, Draws) else 64
    if isinstance(likelihood, _NotGiven):
        warnings.warn(
            "predict without likelihood=: the result describes the network's outputs, without noise, and intervals are too "
            "narrow for targets. Pass the likelihood that the loss belongs to, e.g. vadam.Categorical() for cross-entropy or "
            "vadam.Gaussian(noise_precision) for squared errors, or likelihood=None to ask for the outputs alone",
            MissingLikelihood,
            stacklevel=2,
        )
        likelihood = None
    if likelihood is not None and (isinstance(likelihood, type) or not hasattr(likelihood, "log_prob")):
        raise TypeError(
            f"likelihood={likelihood!r} is not a likelihood: give an instance such as vadam.Categorical() for cross-entropy, "
            "vadam.Gaussian(noise_precision) for squared errors, or None for the outputs alone"
        )
    warn_if_uninformed(post)
    outputs = sampled_outputs(model, post, x, samples, batch_size=batch_size, generator=generator, vmap=vmap)
    if isinstance(likelihood, Categorical):
        if outputs.dim() < 3:
            raise ValueError(
                f"the logits of all inputs have shape {list(outputs.shape[1:])}, without an axis for the rows: give batches of rows, "
                "as x[None] for one and torch.stack(rows) for several"
            )
        return Classes(outputs, likelihood)
    if isinstance(likelihood, Bernoulli):
        return Binary(outputs, likelihood)
    if likelihood is None or hasattr(likelihood, "cdf"):
        return Regression(outputs, likelihood)
    return Prediction(outputs, likelihood)


@dataclass(frozen=True, eq=False, repr=False)
class Prediction:
    """The outputs ``samples`` [S, B, ...] at S draws of the weights, and their likelihood."""

    samples: Tensor
    likelihood: Likelihood | None = None

    def log_prob_samples(self, y: Tensor) -> Tensor:
        """Return log p(yᵢ | xᵢ, θₛ), [S, B], the input of ``vadam.metrics.log_likelihood``."""
        if self.likelihood is None:
            raise ValueError(
                "the probability of targets needs a likelihood: predict(..., likelihood=vadam.Gaussian(τ))"
            )
        y = as_tensor(y, self.samples)
        return torch.stack([self.likelihood.log_prob(output, y) for output in self.samples])

    def log_prob(self, y: Tensor) -> Tensor:
        """Return log 1/S Σₛ p(yᵢ | xᵢ, θₛ) for each example."""
        return _log_mean_exp(self.log_prob_samples(y))

    def joint_log_prob(self, y: Tensor) -> Tensor:
        """Return log 1/S Σₛ Πᵢ p(yᵢ | xᵢ, θₛ), one number for all examples together."""
        return _log_mean_exp(self.log_prob_samples(y).sum(1))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{type(self).__name__} has no {name!r}: probabilities of classes come from predict(..., likelihood="
            "vadam.Categorical() or vadam.Bernoulli()), means and intervals from vadam.Gaussian(τ) or no likelihood"
        )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self.samples)} samples of {list(self.samples.shape[1:])}, {self.likelihood!r})"
        )


class Regression(Prediction):
    """A mixture of S distributions for every target, one for each draw of the weights.

    The total variance is the variance of the means over the draws (epistemic) plus the mean variance of the noise (aleatoric).
    """

    @property
    def mean(self) -> Tensor:
        return self._means.mean(0)

    @property
    def epistemic(self) -> Tensor:
        """Return the standard deviation of E[y | f(x; θₛ)] over the draws."""
        return self._means.std(0, correction=0)

    @property
    def aleatoric(self) -> Tensor:
        """Return the standard deviation of the noise: the root of its mean variance over the draws."""
        if self.likelihood is None:
            return torch.zeros_like(self.samples[0])
        if isinstance(self.likelihood, Gaussian):
            return self.likelihood.std(self.samples[0])  # the same for all draws
        return self._numbers.std(self.samples).square().mean(0).sqrt()

    @property
    def variance(self) -> Tensor:
        return self.epistemic**2 + self.aleatoric**2

    @property
    def std(self) -> Tensor:
        """Return the standard deviation of y: epistemic and aleatoric together."""
        return self.variance.sqrt()

    def cdf(self, y: Tensor) -> Tensor:
        """Return P(Y ≤ y) for every target; for a calibrated prediction of real targets these are uniform."""
        y = like_output(as_tensor(y, self.samples), self._means[0])
        if self.likelihood is None:
            below = (self.samples <= y).to(self.samples.dtype)
            return below.masked_fill(self.samples.isnan(), math.nan).mean(0)
        return self._mixture_cdf(y)

    def quantile(self, q: float | Tensor) -> Tensor:
        """Return the y with P(Y ≤ y) = q under the mixture; a vector q adds a first axis.

        This is the exact quantile of the mixture, not that of a Gaussian with the same moments. For counts it is the smallest
        y with P(Y ≤ y) ≥ q.
        """
        levels = torch.as_tensor(q, dtype=self.samples.dtype, device=self.samples.device)
        if not bool(((levels > 0) & (levels < 1)).all()) or levels.dim() > 1:
            raise ValueError(f"q must be a probability between 0 and 1, or a vector of them, got {q!r}")
        if levels.dim():
            return torch.stack([self.quantile(level) for level in levels])
        if self.likelihood is None:
            return _empirical_quantile(self.samples, levels)
        return self._mixture_quantile(levels)

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Return lower and upper end of the central interval that contains y with probability ``level``."""
        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1, e.g. 0.9, got {level!r}")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def draw(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw one y for every draw of the weights, [S, B, ...]."""
        return self.samples if self.likelihood is None else self._numbers.sample(self.samples, generator)

    def crps(self, y: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the mean of the continuous ranked probability score, in the unit of y; smaller is better.

        A closed form for Gaussian noise; otherwise from one draw of y for each draw of the weights.
        """
        y = as_tensor(y, self.samples)
        if isinstance(self.likelihood, Gaussian | InputNoiseGaussian):
            return crps(self._means, y, self._numbers.std(self.samples))
        return crps(self.draw(generator), y)

    @property
    def _numbers(self) -> NumberLikelihood:
        return self.likelihood  # type: ignore[return-value]

    @property
    def _means(self) -> Tensor:
        return self.samples if self.likelihood is None else self._numbers.mean(self.samples)

    def _mixture_quantile(self, q: Tensor) -> Tensor:
        """Search between the bounds of Cantelli's inequality for the single draws, which hold for every distribution with a variance.

        The search is for u in y = centre + scale sinh u, so that one draw far from the others does not make it coarse.
        """
        eps, largest = torch.finfo(q.dtype).eps, torch.finfo(q.dtype).max
        means, stds = self._means.clamp(-largest, largest), self._numbers.std(self.samples).clamp(max=largest)
        centre = means.median(0).values
        scale = stds.median(0).values + (means - centre).abs().median(0).values
        least = 1.0 if self._numbers.discrete else torch.finfo(q.dtype).tiny ** 0.5
        scale = scale.clamp(least, largest).maximum(eps * centre.abs())

        def argument(y: Tensor) -> Tensor:
            return torch.asinh((y - centre) / scale).clamp(-math.log(largest), math.log(largest))

        def value(u: Tensor) -> Tensor:
            return (centre + scale * torch.sinh(u)).clamp(-largest, largest)

        low = argument((means - stds * ((1 - q) / q).sqrt()).amin(0))
        high = argument((means + stds * (q / (1 - q)).sqrt()).amax(0))
        slack = eps * (1 + centre.abs() / scale)
        low, high = low - slack * (1 + low.abs()), high + slack * (1 + high.abs())
        if not self._numbers.discrete:
            return value(find_root(lambda u: self._mixture_cdf(value(u)) - q, low, high, tolerance=4 * slack))
        for _ in range(torch.finfo(q.dtype).bits):
            middle = (low + high) / 2
            below = self._mixture_cdf(value(middle)) < q
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return value(high).round()

    def _mixture_cdf(self, y: Tensor) -> Tensor:
        return self._numbers.cdf(self.samples, y).mean(0)


class Classes(Prediction):
    """Class probabilities 1/S Σₛ softmax f(x; θₛ). Entropies are in nats."""

    @property
    def probs(self) -> Tensor:
        return self._class_probs

    @property
    def label(self) -> Tensor:
        """Return the most probable class."""
        return self._class_probs.argmax(-1)

    @property
    def confidence(self) -> Tensor:
        """Return the probability of the most probable class."""
        return self._class_probs.amax(-1)

    @property
    def entropy(self) -> Tensor:
        """Return H[p], the total uncertainty: the sum of expected entropy and mutual information."""
        return torch.special.entr(self._class_probs).sum(-1)

    @property
    def expected_entropy(self) -> Tensor:
        """Return 1/S Σₛ H[pₛ], the aleatoric part: the mean uncertainty of each draw."""
        return torch.special.entr(self._class_log_probs.exp()).sum(-1).mean(0)

    @property
    def mutual_information(self) -> Tensor:
        """Return H[p] − 1/S Σₛ H[pₛ], the epistemic part: the disagreement between the draws."""
        return (self.entropy - self.expected_entropy).clamp(min=0)

    @property
    def _class_log_probs(self) -> Tensor:
        return self.likelihood.class_log_probs(self.samples)  # type: ignore[union-attr]

    @property
    def _class_probs(self) -> Tensor:
        return self._class_log_probs.exp().mean(0)


class Binary(Classes):
    """Probabilities of two classes from one output: ``probs`` is P(y = 1), in the shape of the outputs."""

    @property
    def probs(self) -> Tensor:
        return self._class_probs[..., 1]


def _log_mean_exp(log_p: Tensor) -> Tensor:
    return log_p.logsumexp(0) - math.log(len(log_p))


def _empirical_quantile(samples: Tensor, q: Tensor) -> Tensor:
    """Interpolate linearly between the order statistics around q (S − 1); NaN where a sample is.

    ``torch.quantile`` refuses more than 16 million numbers.
    """
    ordered = samples.sort(0).values
    position = q * (len(samples) - 1)
    between = torch.lerp(ordered[int(position.floor())], ordered[int(position.ceil())], position.frac())
    return between.masked_fill(ordered[-1].isnan(), math.nan)
