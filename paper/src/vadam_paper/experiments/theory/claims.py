"""The paper's statements about its algorithms."""

from itertools import pairwise
from typing import Any

import numpy as np

from vadam_paper.experiments.intervals import compared, difference, interval
from vadam_paper.experiments.ledger import Claim, Evidence, Verdict
from vadam_paper.experiments.results import Results
from vadam_paper.experiments.verdicts import above, below, every, exactly, trials_needed

ROUNDING = 1e-12
"""Float64 differences below this count as rounding errors."""


SLIGHTLY = 0.15
"""Share of the optimum's ELBO up to which a difference counts as slight, as in the judges of Fig. 2b."""
ALL, NONE = 0.99, 0.01
"""Shares of first actions that count as all and as none."""


def _exact(holds: bool, text: str) -> Evidence:
    """Judge a statement that chance has no part in."""
    return Evidence(exactly(holds), text)


def _tiny(value: float) -> str:
    return f"{value:.0e}" if value else "0"


def _theorem_1(results: Results) -> Evidence:
    theorem = results["text"]["theorem-1"]
    batches = sum(row["minibatches"] for row in theorem["sizes"])
    worst = max(row["error"] for row in theorem["sizes"])
    return _exact(
        worst < ROUNDING, f"All {batches:,} minibatches of {theorem['num_data']} examples: error {_tiny(worst)}."
    )


def _bias_grows(results: Results) -> Evidence:
    bias = [row["relative_bias"] for row in results["text"]["theorem-1"]["sizes"]]
    text = (
        f"Mean relative bias: {bias[0]:.2f} at M = 1, {bias[1]:.2f} at 2, {bias[-1]:.2f} at M = N; it grows throughout."
    )
    return _exact(all(a < b for a, b in pairwise(bias)), text)


def _one_is_unbiased(results: Results) -> Evidence:
    first = results["text"]["theorem-1"]["sizes"][0]
    return _exact(
        first["relative_bias"] < ROUNDING, f"w = {first['w']:.0f}, relative bias {_tiny(first['relative_bias'])}."
    )


def _full_batch_is_magnitude(results: Results) -> Evidence:
    theorem = results["text"]["theorem-1"]
    last = theorem["sizes"][-1]
    worst = max(abs(a - b) for a, b in zip(last["enumerated"], theorem["squared_gradient"], strict=True))
    return _exact(worst < 1e-6 and last["w"] == 0, f"w = {last['w']:.0f}; E[ĝ²] differs from g² by {_tiny(worst)}.")


def _same_fixed_point(results: Results) -> Evidence:
    fixed = results["text"]["fixed-points"]
    apart, residual = fixed["distance_of_fixed_points"], max(fixed["residual"].values())
    text = f"Fixed points apart by {_tiny(apart)}; App. H's equations hold to {_tiny(residual)}."
    return _exact(apart < 1e-6, text)


def _different_paths(results: Results) -> Evidence:
    fixed = results["text"]["fixed-points"]
    steps = ", ".join(f"{run['steps_to_1e-3']} steps {name}" for name, run in fixed["runs"].items())
    apart = fixed["largest_distance_of_paths"]
    return _exact(apart > 0.01, f"The paths are up to {apart:.2f} apart; {steps} to settle.")


def _von_is_ngvi(results: Results) -> Evidence:
    error = results["text"]["identities"]["von_minus_natural_gradient"]
    optimum = results["text"]["fixed-points"]["von_to_mean_field_optimum"]
    text = f"One step differs by {_tiny(error)}; with exact expectations VON ends {_tiny(optimum)} from the optimum of the ELBO."
    return _exact(error < ROUNDING, text)


def _vadam_is_adam(results: Results) -> Evidence:
    error = results["text"]["identities"]["vadam_without_noise_and_prior_minus_adam"]
    return _exact(error < ROUNDING, f"With noise and prior off Vadam and torch.optim.Adam differ by {_tiny(error)}.")


def _heavy_ball(results: Results) -> Evidence:
    identity = results["text"]["identities"]
    quotient = identity["adam_minus_heavy_ball_with_quotient"]
    product = identity["adam_minus_heavy_ball_with_product"]
    text = (
        f"With γ̃ as the quotient of App. E the difference is {_tiny(quotient)}; as printed in §4 it is {product:.2f}."
    )
    return _exact(quotient < ROUNDING, text)


def _positive(results: Results) -> Evidence:
    smallest = results["text"]["identities"]["smallest_precision_of_vogn"]
    return _exact(smallest > 0, f"Smallest precision over a run with rates up to 1: {smallest:.2f}.")


def _vadagrad(results: Results) -> Evidence:
    change = results["text"]["identities"]["smallest_change_of_vadagrads_s"]
    return _exact(change >= 0, f"Smallest change of s over a run: {_tiny(change)}.")


def _memory(results: Results) -> Evidence:
    vectors = results["text"]["identities"]["vectors_per_weight"]
    text = "Numbers kept per weight, the mean among them: " + ", ".join(f"{k} {v}" for k, v in vectors.items())
    return _exact(vectors["Vadam"] < vectors["BBVI with Adam"], f"{text}.")


def _mirror_descent(results: Results) -> Evidence:
    found = results["text"]["mirror-descent"]
    text = (
        f"{found['problems']} random Gaussians with full covariance in {found['dimension']} dimensions: F⁻¹∇_η L and ∇_m L differ by "
        f"{_tiny(found['identity'])}; at the natural-gradient step the mirror-descent objective has a gradient of {_tiny(found['step'])}, "
        "both relative."
    )
    return _exact(max(found["identity"], found["step"]) < 1e-10, text)


def _ggn_error(results: Results) -> Evidence:
    """Judge the change of the relative error from the start to the end of training, run by run, for many and for few examples."""
    found = results["text"]["ggn-error"]
    verdicts, parts, plans = [], [], []
    for N in ("1000", "100"):
        errors, losses = np.asarray(found[N]["relative_error"]), np.asarray(found[N]["loss"])
        change = difference(errors[:, -1].tolist(), errors[:, 0].tolist(), paired=True)
        verdicts.append(below(change))
        start, soon, end = (f"{value:.2f}" for value in errors.mean(0))
        parts.append(
            f"{N} examples: the loss goes from {losses[:, 0].mean():.2f} to {losses[:, -1].mean():.2f}, the error from {start} over {soon} "
            f"to {end}, change {change}; averaged over VOGN's q it is {np.mean(found[N]['under_q']):.2f}"
        )
        if verdicts[-1] == Verdict.UNDECIDED and (needed := trials_needed(change, len(errors))) is not None:
            plans.append(f"{needed} runs with {N} examples, a second of processor time each.")
    text = (
        f"Error of the mean squared gradients of single examples, relative to the Hessian's diagonal; a network of {found['weights']} "
        f"weights trained by maximum likelihood, 95 %: {'; '.join(parts)}. With 100 examples the network fits the noise of their labels."
    )
    return Evidence(every(*verdicts), text, " ".join(plans))


def _vogn_1_is_slow(results: Results) -> Evidence:
    found = results["text"]["speed-and-quality"]
    slow, fast = found["vogn-M1"], found["vprop-M32"]
    times = compared(slow["steps"], fast["steps"], lambda a, b: a.mean(-1) / b.mean(-1), paired=False)
    text = (
        f"Steps until the ELBO settles, each at the rate with the best end: VOGN, M = 1 {_settling(slow)}; Vprop, M = 32 "
        f"{_settling(fast)}. Ratio of the steps, 95 %: {times}."
    )
    return Evidence(above(times, 1.0), text)


def _vprop_slightly_worse(results: Results) -> Evidence:
    found = results["text"]["speed-and-quality"]
    gap = difference(found["vprop-M32"]["end"], found["vogn-M1"]["end"], paired=False)
    margin = SLIGHTLY * abs(found["optimum"])
    text = f"{_ends(found, 'vprop-M32', 'vogn-M1')} Difference, 95 %: {gap} nats; {margin:.1f}, {SLIGHTLY:.0%} of the optimum, is slight."
    return Evidence(every(above(gap), below(gap, margin)), text)


def _vprop_1_worse(results: Results) -> Evidence:
    found = results["text"]["speed-and-quality"]
    gap = difference(found["vprop-M1"]["end"], found["vogn-M1"]["end"], paired=False)
    return Evidence(above(gap), f"{_ends(found, 'vprop-M1', 'vogn-M1')} Difference, 95 %: {gap} nats.")


def _settling(method: dict[str, Any]) -> str:
    steps = float(np.mean(method["steps"]))
    return f"{steps:.0f} ({steps * method['epochs_a_step']:.0f} epochs) at α = {method['rate']:g}"


def _ends(found: dict[str, Any], *methods: str) -> str:
    parts = ", ".join(f"{NAMES[method]} {interval(found[method]['end'])}" for method in methods)
    return f"ELBO below the mean-field optimum of {found['optimum']:.1f}, at the end: {parts}."


NAMES = {"vogn-M1": "VOGN, M = 1", "vprop-M1": "Vprop, M = 1", "vprop-M32": "Vprop, M = 32"}


def _first_actions(results: Results) -> Evidence:
    found = results["text"]["first-actions"]
    without, with_c = (interval(found[name]) for name in ("without_c", "with_c"))
    text = f"Share of first actions beyond ±0.999 over samples of the weights, 95 %: {without} without c, {with_c} with c = 10,000."
    return Evidence(every(above(without, ALL), below(with_c, NONE)), text)


def _natural_momentum(results: Results) -> Evidence:
    found = results["text"]["momentum"]
    exact, ends = found["exact_minus_recursion"], found["distance_of_fixed_points"]
    by = found["largest_relative_difference_of_precision"]
    text = (
        f"Before the approximation VON with momentum and §4's recursion of the natural parameters differ by {_tiny(exact)}, relative. "
        f"With it the precision differs by up to {by:.0%} on the way (γ̄ = {found['momentum']:.2f}), the mean by up to "
        f"{found['largest_difference_of_mean']:.2f}, and the fixed points by {_tiny(ends)}."
    )
    return _exact(exact < 1e-9 and ends < 1e-6, text)


CLAIMS = (
    Claim(
        "theorem-1",
        "Theorem 1",
        "The expected gradient magnitude is w · GGN + (1 − w) · (full-batch gradient)².",
        _theorem_1,
    ),
    Claim("theorem-bias", "§3.4", "The bias of the gradient magnitude increases with the minibatch size.", _bias_grows),
    Claim(
        "theorem-m1", "§3.4", "For M = 1 the gradient magnitude is an unbiased estimator of the GGN.", _one_is_unbiased
    ),
    Claim("theorem-mn", "§3.4", "For M = N it is purely the magnitude of the gradient.", _full_batch_is_magnitude),
    Claim("fixed-point", "App. H", "The square root does not change the fixed points of Vprop.", _same_fixed_point),
    Claim("fixed-path", "App. H", "The iterations and the path to the solution do depend on it.", _different_paths),
    Claim(
        "von-ngvi",
        "§3.1, App. D",
        "VON is natural-gradient VI, written with gradients and Hessians of f.",
        _von_is_ngvi,
    ),
    Claim("vogn-positive", "§3.2", "With the GGN the variance stays positive.", _positive),
    Claim("vadam-adam", "Fig. 1", "Vadam differs from Adam only by the perturbation and the prior.", _vadam_is_adam),
    Claim("heavy-ball", "§4, App. E", "Adam can be written as an adaptive heavy-ball method.", _heavy_ball),
    Claim(
        "vadagrad-shrinks", "§5", "The entries of VadaGrad's s never decrease: its variance never expands.", _vadagrad
    ),
    Claim("memory", "Abstract, §1", "The algorithms need less memory than existing VI methods.", _memory),
    Claim(
        "mirror-descent",
        "App. B",
        "F(η)⁻¹∇_η L = ∇_m L: a mirror-descent step in the expectation parameters is a natural-gradient step.",
        _mirror_descent,
    ),
    Claim(
        "ggn-error",
        "§3.2",
        "For maximum likelihood, the error of the Gauss-Newton approximation decreases as the fit improves during training.",
        _ggn_error,
    ),
    Claim(
        "vogn-1-slow",
        "§3.4",
        "VOGN with M = 1 might converge slowly; Vprop with M > 1 converges fast.",
        _vogn_1_is_slow,
    ),
    Claim("vprop-worse", "§3.4", "Vprop with M > 1 might result in slightly worse estimates.", _vprop_slightly_worse),
    Claim(
        "vprop-1",
        "§3.4",
        "Vprop with M = 1 may not be as good as VOGN with M = 1, because of the square root.",
        _vprop_1_worse,
    ),
    Claim(
        "first-actions",
        "App. K",
        "Without the constant c the first sampled weights contain no information (here: the first actions saturate).",
        _first_actions,
    ),
    Claim(
        "natural-momentum",
        "§4, App. E",
        "Natural momentum is, up to one approximation (Σₜ₋₁ ≈ Σₜ), VON with momentum: exactly so before it, and with the "
        "same solution after it.",
        _natural_momentum,
    ),
)
