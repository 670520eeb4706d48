"""Likelihoods: log p(y | f) of the targets y given the network's outputs f = model(x).

    Gaussian            y = f + noise, noise ~ N(0, 1/noise_precision)
    InputNoiseGaussian  y = f₁ + e^f₂ noise, noise ~ N(0, 1)         f is twice as wide as y: means, then log deviations
    StudentT            y = f + noise/√noise_precision, noise ~ t    heavier tails than the Gaussian
    InputNoiseStudentT  y = f₁ + e^f₂ noise, noise ~ t               both
    Poisson             y = 0, 1, 2, … with mean e^f                 f is the logarithm of the rate
    NegativeBinomial    y = 0, 1, 2, … with mean e^f                 and variance e^f + e^2f/total_count
    Bernoulli           P(y = 1) = 1/(1 + e⁻ᶠ)                       f are logits, y is 0 or 1
    Categorical         P(y = c) = e^f_c / Σₖ e^f_k                  f are logits on the last axis, y is the class

``nll(output, y)`` is the training loss, the minibatch mean. ``log_prob(output, y)`` returns one number per example. The
first axis counts the examples; log-probabilities are summed over all others, e.g. over several targets.

Likelihoods of numbers also have the ``mean``, ``std`` and ``cdf`` of a target given the outputs, and ``sample`` targets.
Likelihoods of classes have ``class_log_probs``.

``log_density`` and ``residual`` are the formulas behind them, for outputs of any shape and one-hot classes: a stack of networks
computes its gradients by them without autograd.
"""

from vadam.likelihoods.classes import Bernoulli, Categorical
from vadam.likelihoods.counts import NegativeBinomial, Poisson
from vadam.likelihoods.operands import as_numbers, as_tensor, like_output, weights_of
from vadam.likelihoods.protocols import Formulas, Likelihood, NumberLikelihood
from vadam.likelihoods.real import LOG_NOISE_BOUND, Gaussian, InputNoiseGaussian, InputNoiseStudentT, StudentT

__all__ = [
    "CONTINUOUS",
    "FORMULAS",
    "LOG_NOISE_BOUND",
    "Bernoulli",
    "Categorical",
    "Formulas",
    "Gaussian",
    "InputNoiseGaussian",
    "InputNoiseStudentT",
    "Likelihood",
    "NegativeBinomial",
    "NumberLikelihood",
    "Poisson",
    "StudentT",
    "as_numbers",
    "as_tensor",
    "like_output",
    "outputs_for",
    "weights_of",
]

FORMULAS: dict[str, Formulas] = {
    "gaussian": Gaussian,
    "input-noise": InputNoiseGaussian,
    "student-t": StudentT,
    "poisson": Poisson,
    "bernoulli": Bernoulli,
    "categorical": Categorical,
}
CONTINUOUS = ("gaussian", "input-noise", "student-t")
"""The likelihoods of real targets, which may be standardised."""


def outputs_for(likelihood: str, targets: int) -> int:
    """Return how many outputs a network needs for so many targets a row."""
    return 2 * targets if likelihood == "input-noise" else targets
