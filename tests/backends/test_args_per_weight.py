"""Arguments of a rule that differ from weight to weight, on every backend."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import vadam
from specs import SPECS, Problem, Spec
from vadam import backends, rules
from vadam.backends import bucket as buckets
from vadam.backends import chunks
from vadam.backends.bucket import Bucket

WITH_PRIOR = [spec for spec in SPECS if spec.has_prior]
ELEMENTWISE = [spec for spec in WITH_PRIOR if spec.mean_field and spec.elementwise]

Precisions = Callable[[Tensor], Tensor]


def start_at_prior(spec: Spec, start: str | None) -> dict[str, Any]:
    """Return the arguments for a start at the prior's precisions, and for rates that do not depend on them (IVON's)."""
    declared = {argument.name for argument in spec.build.rule.ARGUMENTS}
    return {name: x for name, x in {"init_precision": start, "rescale_lr": False}.items() if name in declared}


def trained(spec: Spec, backend: str, lam: Precisions, **options: Any) -> list[Tensor]:
    """Return weights, state and precisions after some steps with the prior precision ``lam(p)`` of each parameter."""
    problem = Problem(torch.float32)
    precision = {str(i): lam(p.detach()) for i, p in enumerate(problem.model.parameters())}
    prior = vadam.MeanFieldGaussian({name: torch.zeros_like(x) for name, x in precision.items()}, precision)
    return after_steps(
        spec, problem, backend, prior=prior, prior_precision=1.0, **start_at_prior(spec, None), **options
    )


def after_steps(spec: Spec, problem: Problem, backend: str, **options: Any) -> list[Tensor]:
    opt = spec.make_for(problem.model, generator=torch.Generator().manual_seed(1), backend=backend, **options)
    for _ in range(4):
        problem.step(opt, spec)
    state = [x for name in spec.build.rule.State._fields for x in field(opt, name)]
    return problem.weights() + state + [*opt.posterior(problem.model).precision.values()]


def field(opt: vadam.VariationalOptimizer, name: str) -> list[Tensor]:
    """Return a field of the state of every parameter, where it is a tensor."""
    found = [state.get(name) for state in opt.state.values()]
    return [x.clone() for x in found if isinstance(x, Tensor)]


def between_1_and_3(p: Tensor) -> Tensor:
    return 1 + 2 * torch.rand(p.shape, generator=torch.Generator().manual_seed(p.numel()))


def assert_close(ours: list[Tensor], theirs: list[Tensor]) -> None:
    for x, y in zip(ours, theirs, strict=True):
        torch.testing.assert_close(x, y, rtol=2e-4, atol=2e-5)


@pytest.mark.usefixtures("same_noise")
@pytest.mark.parametrize("spec", ELEMENTWISE, ids=str)
@pytest.mark.parametrize("options", [{}, {"store_mean": False}, {"samples": 2}], ids=str)
def test_native_and_plain(spec: Spec, options: dict[str, Any]) -> None:
    ours, plainly = (trained(spec, name, between_1_and_3, **options) for name in ("native", "plain"))
    assert_close(ours, plainly)
    assert any(not torch.allclose(x, y) for x, y in zip(ours, trained(spec, "native", torch.ones_like), strict=True))


@pytest.mark.parametrize("spec", ELEMENTWISE, ids=str)
def test_compiled_and_plain(spec: Spec) -> None:
    ours, plainly = (trained(spec, name, between_1_and_3) for name in ("compiled", "plain"))
    assert_close(ours, plainly)


@pytest.mark.parametrize("spec", ELEMENTWISE, ids=str)
@pytest.mark.parametrize("backend", ["native", "plain"])
def test_equal_numbers_are_one_number(spec: Spec, backend: str) -> None:
    """The oracle is the argument as a number."""
    per_weight = trained(spec, backend, lambda p: torch.full_like(p, 2.0))
    number = {"prior_precision": 2.0, **start_at_prior(spec, "prior")}
    assert_close(per_weight, after_steps(spec, Problem(torch.float32), backend, **number))


def test_model_rules_take_the_vector() -> None:
    """FullVON's groups with priors of their own are the oracle."""
    numbers = [1.0, 2.0, 3.0, 1.5]
    (spec,) = [spec for spec in WITH_PRIOR if not spec.mean_field]
    found = []
    for per_weight in (False, True):
        problem = Problem(torch.float32)
        params = list(problem.model.parameters())
        pairs = list(zip(params, numbers, strict=True))
        precision = {str(i): torch.full_like(p, x) for i, (p, x) in enumerate(pairs)}
        prior = vadam.MeanFieldGaussian({name: torch.zeros_like(x) for name, x in precision.items()}, precision)
        groups = [{"params": [p], "prior_precision": x} for p, x in pairs]
        start = {
            "init_precision": None if per_weight else "prior",
            "prior_precision": 1.0,
            "generator": torch.Generator().manual_seed(1),
        }
        opt = spec.make(params, prior=prior, **start) if per_weight else spec.make(groups, **start)
        for _ in range(4):
            problem.step(opt, spec)
        found.append([*problem.weights(), opt.state[params[0]]["S"]])
    assert_close(*found)


@pytest.mark.parametrize("backend", ["native", "plain"])
def test_long_tensors_are_cut_with_their_arguments(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks, parts of buckets and memory formats: each weight has its own argument, whatever lies beside it."""
    monkeypatch.setattr(chunks, "GRAIN", 32)
    monkeypatch.setattr(chunks, "CHUNK", 64)
    monkeypatch.setitem(buckets.LIMIT, "cpu", 200)
    shapes = [(10, 3, 4, 5), (7, 9), (5,), (40,), (11, 13)]
    params = [torch.randn(shape) for shape in shapes]
    params[0] = params[0].to(memory_format=torch.channels_last)
    lam = [torch.rand(shape) + 1 for shape in shapes]
    grads, s = ([torch.randn(p.shape).abs() for p in params] for _ in range(2))
    numbers = {
        "alpha": 0.1,
        "beta": 0.2,
        "N": 10.0,
        "mu0": 0.0,
        "tau": 1.0,
        "kappa": 0.0,
        "w": 1.0,
        "sampling_precision": 0.0,
    }
    expected = []
    for p, x, g, weight in zip(params, lam, grads, s, strict=True):
        new = 0.8 * weight + 0.2 * g * g
        expected.append((p - 0.1 * (g + x / 10 * p) / (new.sqrt() + x / 10), 10 * weight + x))
    bucket = Bucket(rules.vprop, {**numbers, "lam": lam}, params, [{"s": x.clone(), "s0": 0.0} for x in s])
    runner = backends.choose(backend)
    for part, (_, precision) in zip(bucket.split(runner.precision(bucket)), expected, strict=True):
        torch.testing.assert_close(part, precision)
    runner.update([bucket], dict(zip(params, grads, strict=True)), {})
    for p, (mean, _) in zip(params, expected, strict=True):
        torch.testing.assert_close(p, mean)


@pytest.mark.parametrize("backend", ["native", "plain"])
def test_samples_have_the_precision_of_each_weight(backend: str) -> None:
    """(θ − μ)² × precision has mean 1 in each half: 20,000 squares of normal numbers, six standard errors of √(2/20,000)."""
    p = torch.zeros(40_000)
    lam = torch.cat([torch.full((20_000,), 4.0), torch.full((20_000,), 100.0)])
    numbers = {"N": 1.0, "tau": 1.0, "kappa": 0.0, "w": 1.0, "sampling_precision": 0.0}
    bucket = Bucket(rules.vprop, {**numbers, "lam": [lam]}, [p], [{"s": torch.zeros_like(p), "s0": 0.0}])
    noise = backends.noise.NoiseSource(torch.Generator().manual_seed(0))
    draw = backends.choose(backend).draw([bucket], noise, 1.0, keep_mean=True)
    draw.perturb()
    for half in (p.square() * lam).chunk(2):
        assert abs(float(half.mean()) - 1) < 0.06
    eps = draw.noise()[p]
    torch.testing.assert_close(draw.products({p: torch.ones_like(p)})[p], eps * lam.sqrt(), rtol=1e-4, atol=1e-4)


def test_frozen_parameters_are_left_out() -> None:
    """The prior has a precision for every parameter of the group; a frozen one takes its own with it."""
    problem = Problem(torch.float32)
    problem.model[0].bias.requires_grad_(False)
    precision = {str(i): torch.full_like(p, 1.0 + i) for i, p in enumerate(problem.model.parameters())}
    prior = vadam.MeanFieldGaussian({name: torch.zeros_like(x) for name, x in precision.items()}, precision)
    opt = vadam.Vprop(problem.model.parameters(), lr=0.1, num_data=40, prior=prior)
    (bucket,) = opt._buckets()
    assert [float(x.mean()) for x in bucket.rule_args["lam"]] == [1.0, 3.0, 4.0]
    assert [x.shape for x in bucket.rule_args["lam"]] == [p.shape for p in bucket.params]
