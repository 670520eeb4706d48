"""Numbers: a million steps with extreme priors, numbers of data, gradients and dtypes. Precision stays positive and finite."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

import vadam
from specs import BY_NAME, SPECS, Spec, same
from torture.case import Break, Case, Failed, Kind, Outcome, Part

STEPS = 5_000
LOOK_EVERY = 250
SCALES = (0.0, 1e-45, 1e-30, 1e-15, 1e-6, 1.0, 1e3, 1e6, 1e9)
"""Magnitudes of gradients. Larger ones are refused in words, which is the business of bad_input."""
PRIORS = (0.0, 1e-12, 1e-3, 1.0, 1e4, 1e9)
NUMBERS_OF_DATA = (1, 40, 1e4, 1e8, 1e12)
WITHOUT_LAYERS = [spec for spec in SPECS if "context" in spec.ways and not spec.needs_attach]
DTYPES = (torch.float32, torch.float32, torch.bfloat16, torch.float64)


class Weights:
    """A weight for each scale of gradients, whose gradients come and go, and its optimizer."""

    def __init__(self, spec: Spec, dtype: torch.dtype, options: dict[str, Any], seed: int) -> None:
        self.noise = torch.Generator().manual_seed(seed)
        self.scales = torch.tensor(SCALES, dtype=torch.float64).repeat_interleave(4).view(4, -1).to(dtype)
        self.p = nn.Parameter(torch.linspace(-2, 2, self.scales.numel(), dtype=dtype).view(self.scales.shape).clone())
        self.opt = spec.make([self.p], generator=torch.Generator().manual_seed(seed + 1), **options)

    def step(self) -> None:
        signs = torch.randn(self.p.shape, generator=self.noise).to(self.p.dtype)
        with self.opt.sampled_params():
            self.p.grad = self.scales * signs
        self.opt.step()


def look(weights: Weights, given: str, step: int) -> None:
    precision = weights.opt.posterior().precision["0"]
    if not bool(precision.isfinite().all() and (precision > 0).all()):
        raise Failed(f"{given}, step {step}: the precision is {precision.flatten().tolist()}")
    if not bool(weights.p.isfinite().all()):
        raise Failed(f"{given}, step {step}: a weight is not finite: {weights.p.flatten().tolist()}")


def chosen(case: Case) -> tuple[str, Spec, torch.dtype, dict[str, Any]]:
    random = case.random
    spec, dtype = random.choice(WITHOUT_LAYERS), random.choice(DTYPES)
    if not spec.elementwise and dtype is torch.bfloat16:
        dtype = torch.float32
    options: dict[str, Any] = {
        "backend": random.choice(("native", "native", "plain")),
        "lr": random.choice((1e-8, 1e-3, 0.1)),
    }
    options["store_mean"] = random.random() < 0.8
    if "hess_init" in spec.kwargs:
        options["rescale_lr"] = False  # otherwise lr is multiplied by the precision, and a large prior makes it diverge
    if spec.has_prior:
        options |= {"num_data": random.choice(NUMBERS_OF_DATA), "prior_precision": random.choice(PRIORS)}
        if "init_precision" in spec.kwargs:
            options["init_precision"] = max(1e-3, options["prior_precision"]) * random.choice((1.0, 1e3, 1e8))
    return f"{spec} {dtype} {options}", spec, dtype, options


def extremes(case: Case) -> Outcome:
    """Train with one random choice of extremes."""
    found = Outcome()
    given, spec, dtype, options = chosen(case)
    weights = Weights(spec, dtype, options, case.random.randrange(2**31))
    refused = 0
    for step in range(STEPS):
        before = [weights.p.detach().clone()]
        try:
            weights.step()
        except FloatingPointError:
            refused += 1
            if options["store_mean"] and not same([weights.p.detach()], before):
                raise Failed(f"{given}, step {step}: a refused step changed the weights") from None
        if step % LOOK_EVERY == 0:
            look(weights, given, step)
    look(weights, given, STEPS)
    found.add("steps", STEPS)
    found.add(f"steps in {str(dtype).removeprefix('torch.')}", STEPS)
    found.add("steps refused", refused)
    return found


def long_run(case: Case) -> Outcome:
    """Train Vadam for many steps; its biases are corrected by γᵗ, which underflows on the way."""
    found = Outcome()
    weights = Weights(BY_NAME["Vadam"], torch.float32, {"lr": 1e-4, "backend": "native"}, case.number)
    for step in range(case.amount):
        weights.step()
        if step % LOOK_EVERY == 0:
            look(weights, "the long run", step)
            found.figure("largest weight of the long run", float(weights.p.detach().abs().max()))
    look(weights, "the long run", case.amount)
    found.add("steps", case.amount)
    return found


def drift(case: Case) -> Outcome:
    """Measure how far rounding moves a mean that is not stored, at σ = 1.

    Adding and subtracting the noise rounds twice, each time by at most half a unit in the last place of |μ| + 5σ: a random walk.
    """
    found = Outcome()
    for dtype, backend in ((torch.float32, "native"), (torch.float32, "plain"), (torch.float64, "plain")):
        p = nn.Parameter(torch.linspace(-1, 1, 1000, dtype=dtype))
        start, bound = p.detach().clone(), 24 * torch.finfo(dtype).eps * math.sqrt(case.amount)
        generator = torch.Generator().manual_seed(case.random.randrange(2**31))
        options: dict[str, Any] = {"num_data": 1.0, "prior_precision": 1.0, "init_precision": 1.0, "store_mean": False}
        opt = vadam.Vadam([p], generator=generator, backend=backend, **options)
        for _ in range(case.amount):
            with opt.sampled_params():
                pass
        moved, name = largest(p, start), f"{backend} {str(dtype).removeprefix('torch.')}"
        if moved > bound:
            raise Failed(f"{name}: after {case.amount} draws the mean is off by {moved:.3g}, more than {bound:.3g}")
        found.figure(f"drift after {case.amount:,} draws at σ = 1, {name}", moved)
    found.add("steps", case.amount)
    return found


def largest(p: Tensor, start: Tensor) -> float:
    return float((p.detach() - start).abs().max())


KIND = Kind(
    "numbers",
    "However extreme priors, numbers of data, gradients and dtypes are: precision is positive and finite, weights are finite.",
    "steps",
    100_000,
    1_000_000,
    {
        "extremes": Part(extremes, share=5, seconds=400),
        "one long run": Part(long_run, share=4, one_case=True, seconds=400, per_second=200),
        "drift of store_mean=False": Part(drift, share=1, one_case=True, seconds=400, per_second=200),
    },
    breaks=(
        Break(
            "src/vadam/rules/von.py",
            "    return x * (d / TINY).clamp(max=1.0) / d.clamp(min=TINY)\n",
            "    return x / d\n",
            "extremes",
            "a weight whose gradient is always zero becomes NaN where there is no prior",
        ),
    ),
)
