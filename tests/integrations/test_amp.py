"""Mixed precision on the CPU: autocast, GradScaler, unscaling, clipping, accumulation and steps that overflow."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.utils import clip_grad_norm_

import vadam
from matrix import covers
from specs import SPECS, Problem, Spec, same, snapshot

WAYS = [pytest.param(spec, way, id=f"{spec}-{way}") for spec in SPECS for way in spec.ways]
LOOPS = [pytest.param(spec, way, id=f"{spec}-{way}") for spec in SPECS for way in spec.ways if way != "closure"]
# With several samples each backward pass of an attached model ends one: there is nothing to accumulate.
ACCUMULATING = [
    pytest.param(spec, way, samples, id=f"{spec}-{way}-{samples}")
    for spec in SPECS
    for way, samples in (("attach", 1), ("context", 1), ("context", 2))
    if way in spec.ways
]
HALVES = (slice(0, 20), slice(20, 40))
DTYPES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])


class Mixed(Problem):
    """Weights in float32, forward passes in half precision."""

    def __init__(self, spec: Spec, way: str, half: torch.dtype | None, **changes: Any) -> None:
        super().__init__(torch.float32)
        self.half = half
        self.opt = spec.make_for(self.model, generator=torch.Generator().manual_seed(3), **changes)
        if way == "attach":
            self.opt.attach(self.model)

    def loss(self, rows: slice = slice(None)) -> torch.Tensor:
        with torch.autocast("cpu", self.half or torch.bfloat16, enabled=self.half is not None):
            return super().loss(rows)

    def backward(self, way: str, passes: Callable[[], None]) -> None:
        for _ in range(self.opt.samples):
            if way == "context":
                with self.opt.sampled_params():
                    passes()
            else:
                passes()

    def everything(self) -> list[torch.Tensor]:
        return self.weights() + snapshot(self.opt)


@covers("autocast", "bfloat16 and float16, every way of use")
@DTYPES
@pytest.mark.parametrize(("spec", "way"), WAYS)
def test_autocast_trains_as_full_precision_does(spec: Spec, way: str, dtype: torch.dtype) -> None:
    """Same samples: the weights follow those of a float32 run to the digits of the half-precision type."""
    runs = []
    for half in (dtype, None):
        problem = Mixed(spec, way, half, **({} if spec.differentiable else {"samples": 4}))
        for _ in range(5):
            problem.step(problem.opt, spec, way)
        runs.append(problem)
    moved = max(
        float((a - b).abs().max()) for a, b in zip(runs[1].weights(), Problem(torch.float32).weights(), strict=True)
    )
    apart = max(float((a - b).abs().max()) for a, b in zip(runs[0].weights(), runs[1].weights(), strict=True))
    # bfloat16 has 8 bits; IVON's and Adam's first steps divide small gradients by their own size.
    assert apart < 0.25 * moved
    assert all(x.dtype in (torch.float32, torch.float64) for x in runs[0].everything())


@pytest.mark.parametrize(("spec", "way"), WAYS)
def test_every_pass_in_one_block_of_autocast_sees_the_weights_as_they_are(spec: Spec, way: str) -> None:
    """Autocast keeps half-precision copies of the weights until its outermost block ends; a sample makes them stale."""
    problem = Problem(torch.float32)
    opt = spec.make_for(problem.model, samples=2, generator=torch.Generator().manual_seed(3))
    if way == "attach":
        opt.attach(problem.model)
    seen: list[torch.Tensor] = []

    def look(module: torch.nn.Module, args: Any, output: torch.Tensor) -> None:
        with torch.no_grad():  # copies are kept of weights that require a gradient, outside no_grad
            weights = [p.detach().clone() for p in (module.weight, module.bias)]
            seen.append((output.detach() - torch.nn.functional.linear(args[0].detach(), *weights)).abs().max())

    problem.model[0].register_forward_hook(look)
    with torch.autocast("cpu", torch.bfloat16):
        for _ in range(2):
            problem.step(opt, spec, way)
            problem.model.eval()
            problem.loss()
            problem.model.train()
    assert len(seen) >= 6
    assert max(seen) == 0


@covers("autocast", "float16 with GradScaler: unscale, clip, accumulate")
@pytest.mark.parametrize(("spec", "way", "samples"), ACCUMULATING)
def test_scaler_with_clipping_and_accumulation(spec: Spec, way: str, samples: int) -> None:
    """A power of two as the scale changes no digit but those of numbers too small for float16: as good as without a scaler."""
    results = []
    for scale in (64.0, None):
        problem = Mixed(spec, way, torch.float16, samples=samples)
        scaler = torch.amp.GradScaler("cpu", init_scale=scale or 1.0, growth_interval=1000, enabled=scale is not None)
        for _ in range(4):
            problem.opt.zero_grad()

            def passes(problem: Mixed = problem, scaler: Any = scaler) -> None:
                for rows in HALVES:
                    scaler.scale(problem.loss(rows) / 2).backward()

            problem.backward(way, passes)
            scaler.unscale_(problem.opt)
            clip_grad_norm_(problem.model.parameters(), 0.1)
            scaler.step(problem.opt)
            scaler.update()
        results.append(problem.everything())
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


@covers("autocast", "float16 overflow: GradScaler skips the step")
@pytest.mark.parametrize(("spec", "way"), LOOPS)
def test_a_real_overflow_is_skipped(spec: Spec, way: str) -> None:
    """A scale that float16 cannot hold: the gradient overflows by itself, the step is left out, the scale falls, training goes on."""
    problem = Mixed(spec, way, torch.float16)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24, backoff_factor=2.0**-16, growth_interval=1000)
    before, skipped = problem.weights(), []
    for _ in range(4):
        problem.opt.zero_grad()
        problem.backward(way, lambda: scaler.scale(problem.loss()).backward())
        count = problem.opt.skipped_steps
        scaler.step(problem.opt)
        scaler.update()
        skipped.append(problem.opt.skipped_steps > count)
        if all(skipped):
            assert same(problem.weights(), before)
    assert skipped[0]
    assert not skipped[-1]
    assert scaler.get_scale() < 2.0**24
    assert not same(problem.weights(), before)


@covers("autocast", "float16 with GradScaler: unscale, clip, accumulate", refuses=True)
@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.ways == ("closure",)], ids=str)
def test_a_scaler_takes_no_closure(spec: Spec) -> None:
    """torch refuses a closure; without one these optimizers say that they need it."""
    problem = Mixed(spec, "closure", torch.float16)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(problem.loss()).backward()
    with pytest.raises(RuntimeError, match="Closure use is not currently supported"):
        scaler.step(problem.opt, closure=problem.loss)
    with pytest.raises(RuntimeError, match=r"needs step\(closure\)"):
        problem.opt.step()


def test_weights_in_half_precision_train_under_autocast() -> None:
    """Half-precision weights are not recommended but work: the state is kept in float32."""
    problem = Problem(torch.bfloat16)
    opt = vadam.Vadam(problem.model.parameters(), lr=0.05, num_data=40, init_precision=100.0).attach(problem.model)
    with torch.no_grad():
        before = float(Problem(torch.bfloat16).loss())
    for _ in range(30):
        opt.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            problem.loss().backward()
        opt.step()
    problem.model.eval()
    assert float(problem.loss().detach()) < before
    assert all(x.dtype != torch.bfloat16 for x in snapshot(opt))
