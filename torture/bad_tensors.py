"""Odd shapes, dtypes, strides and gradients: weights and precision stay sound, or a refusal changes nothing."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from specs import BY_NAME, SPECS, same
from torture.bad_arguments import STEP_REFUSALS, check_sound, everything
from torture.case import Case, Failed, Outcome
from torture.fuzzing import fuzz

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
SHAPES = ((), (1,), (0,), (7,), (2, 3), (3, 0, 2), (1, 1, 1, 1), (2, 3, 4), (33,), (2, 3, 2, 2), (257,))
LAYOUTS = ("plain", "transposed", "strided", "channels last", "view of a larger one", "offset")
SIZES = (0.0, 1e-45, 1e-30, 1e-8, 1.0, 1e4, 1e15, 1e19, 1e30, math.inf, -math.inf, math.nan)
WITHOUT_LAYERS = [spec.name for spec in SPECS if not spec.needs_attach]


class Weight(NamedTuple):
    """A parameter and the gradients that it gets."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    layout: str
    deterministic: bool
    sizes: tuple[float | None, ...]  # of the gradient in each step, None for no gradient


@st.composite
def trainings(draw: st.DrawFn) -> tuple[str, list[Weight], dict[str, Any]]:
    name = draw(st.sampled_from(WITHOUT_LAYERS))
    spec = BY_NAME[name]
    one_dtype = draw(st.sampled_from(DTYPES))
    sizes = st.tuples(*[st.one_of(st.none(), st.sampled_from(SIZES))] * 3)
    weights = st.builds(
        Weight,
        st.sampled_from(SHAPES),
        st.sampled_from(DTYPES) if spec.mean_field else st.just(one_dtype),
        st.sampled_from(LAYOUTS),
        st.booleans() if spec.backward and spec.has_prior else st.just(False),
        sizes,
    )
    options = {
        "nonfinite": draw(st.sampled_from(("raise", "skip"))),
        "backend": draw(st.sampled_from(("plain", "native"))),
        "samples": draw(st.sampled_from((1, 2))),
        "store_mean": draw(st.booleans()),
    }
    return name, draw(st.lists(weights, min_size=1, max_size=4)), options


def parameter(weight: Weight) -> nn.Parameter:
    """Return a parameter of the shape whose memory is laid out as asked."""
    shape, x = weight.shape, torch.full(weight.shape, 0.5, dtype=weight.dtype)
    if weight.layout == "transposed" and x.dim() > 1:
        x = torch.full(shape[::-1], 0.5, dtype=weight.dtype).permute(*reversed(range(x.dim())))
    elif weight.layout == "strided" and x.dim():
        x = torch.full((*shape[:-1], 2 * shape[-1]), 0.5, dtype=weight.dtype)[..., ::2]
    elif weight.layout == "channels last" and x.dim() == 4:
        x = x.to(memory_format=torch.channels_last)
    elif weight.layout == "view of a larger one" and x.dim():
        x = torch.full((shape[0] + 2, *shape[1:]), 0.5, dtype=weight.dtype)[1:-1]
    elif weight.layout == "offset":
        x = torch.full((x.numel() + 1,), 0.5, dtype=weight.dtype)[1:].view(shape)
    return nn.Parameter(x)


def unchanged(now: list[Tensor], before: list[Tensor], stored: bool) -> bool:
    """Compare bit for bit; without a stored mean up to the rounding of adding and subtracting noise."""
    if stored:
        return same(now, before)
    pairs = zip(now, before, strict=True)
    return all(torch.allclose(a.double(), b.double(), rtol=0, atol=8 * torch.finfo(b.dtype).eps) for a, b in pairs)


def check_training(example: tuple[str, list[Weight], dict[str, Any]]) -> str:
    torch.manual_seed(0)
    name, weights, options = example
    spec, params = BY_NAME[name], [parameter(weight) for weight in weights]
    given = f"{name} {weights} {options}"
    groups = [{"params": [p], "deterministic": w.deterministic} for p, w in zip(params, weights, strict=True)]
    try:
        opt = spec.make(groups if spec.mean_field else params, **options)
    except ValueError:
        return "weights refused"
    pointers = [p.data_ptr() for p in params]
    became = "steps accepted"
    for step in range(3):
        scales = [weight.sizes[step] for weight in weights]

        def closure(scales: list[float | None] = scales) -> Tensor:
            opt.zero_grad()
            used = [(p, s) for p, s in zip(params, scales, strict=True) if s is not None]
            loss = (
                sum((p.double() * s).sum() + (p.double().square() * s).sum() for p, s in used)
                if used
                else torch.zeros((), requires_grad=True)
            )
            if spec.backward:
                loss.backward()
            return loss

        before, skipped = everything(opt), opt.skipped_steps
        try:
            opt.step(closure)
        except STEP_REFUSALS as error:
            refused, became = f"refused ({error})", "steps refused"
        except Exception as error:
            raise Failed(f"{given}: step {step} raises {type(error).__name__}: {error}") from error
        else:
            refused = "skipped" if opt.skipped_steps > skipped else ""
            became = "steps skipped" if refused else became
        if refused and not unchanged(everything(opt)[: len(before)], before, options["store_mean"]):
            raise Failed(f"{given}: step {step} was {refused} and changed weights or state")
        if not all(math.isfinite(s or 0.0) for s in scales) and not refused and spec.differentiable:
            touched = any(
                s is not None and not math.isfinite(s) and p.numel() for p, s in zip(params, scales, strict=True)
            )
            if touched:
                raise Failed(f"{given}: step {step} took a gradient that is not finite")
        if [p.data_ptr() for p in params] != pointers or opt.holds_sample:
            raise Failed(f"{given}: step {step} moved a weight in memory or left a sample")
        check_sound(f"{given}, step {step}", opt)
    return became


def tensors(case: Case) -> Outcome:
    return fuzz(case, trainings(), check_training, examples=100)
