"""Arguments of a rule that differ from weight to weight, on every backend."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import vadam
from specs import SPECS, Problem, Spec, snapshot
from vadam import backends, rules
from vadam.backends import bucket as buckets
from vadam.backends import plain
from vadam.backends.bucket import Bucket

WITH_PRIOR = [spec for spec in SPECS if spec.has_prior]
ELEMENTWISE = [spec for spec in WITH_PRIOR if spec.mean_field and spec.elementwise]

Precisions = Callable[[Tensor], Tensor]


def set_precisions(opt: vadam.VariationalOptimizer, lam: list[Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each weight of a group the prior precision in ``lam``."""
    real = opt._rule_and_args

    def rule_and_args(group: dict[str, Any]) -> Any:
        rule, rule_args = real(group)
        return rule, {**rule_args, "lam": lam}

    monkeypatch.setattr(opt, "_rule_and_args", rule_and_args)


def trained(spec: Spec, backend: str, lam: Precisions, monkeypatch: pytest.MonkeyPatch, **options: Any) -> list[Tensor]:
    """Return weights and state after some steps with the prior precision ``lam(p)`` of each parameter."""
    problem = Problem(torch.float32)
    opt = spec.make_for(problem.model, generator=torch.Generator().manual_seed(1), backend=backend, **options)
    opt._buckets()  # the start of the state depends on prior_precision alone
    set_precisions(opt, [lam(p.detach()) for p in problem.model.parameters()], monkeypatch)
    for _ in range(4):
        problem.step(opt, spec)
    return problem.weights() + snapshot(opt) + [opt._precision(p) for p in opt._sampled()]


def between_1_and_3(p: Tensor) -> Tensor:
    return 1 + 2 * torch.rand(p.shape, generator=torch.Generator().manual_seed(p.numel()))


def assert_close(ours: list[Tensor], theirs: list[Tensor]) -> None:
    for x, y in zip(ours, theirs, strict=True):
        torch.testing.assert_close(x, y, rtol=2e-4, atol=2e-5)


@pytest.mark.usefixtures("same_noise")
@pytest.mark.parametrize("spec", ELEMENTWISE, ids=str)
@pytest.mark.parametrize("options", [{}, {"store_mean": False}, {"samples": 2}], ids=str)
def test_native_and_plain(spec: Spec, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    ours, plainly = (trained(spec, name, between_1_and_3, monkeypatch, **options) for name in ("native", "plain"))
    assert_close(ours, plainly)
    assert any(
        not torch.allclose(x, y)
        for x, y in zip(ours, trained(spec, "native", torch.ones_like, monkeypatch), strict=True)
    )


@pytest.mark.parametrize("spec", ELEMENTWISE, ids=str)
def test_compiled_and_plain(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, plainly = (trained(spec, name, between_1_and_3, monkeypatch) for name in ("compiled", "plain"))
    assert_close(ours, plainly)


@pytest.mark.parametrize("spec", ELEMENTWISE, ids=str)
@pytest.mark.parametrize("backend", ["native", "plain"])
def test_equal_numbers_are_one_number(spec: Spec, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle is the argument as a number."""
    per_weight = trained(spec, backend, lambda p: torch.full_like(p, 2.0), monkeypatch)
    problem = Problem(torch.float32)
    opt = spec.make_for(problem.model, generator=torch.Generator().manual_seed(1), backend=backend)
    for _ in range(4):
        problem.step(opt, spec)
    assert_close(per_weight, problem.weights() + snapshot(opt) + [opt._precision(p) for p in opt._sampled()])


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
    monkeypatch.setattr(plain, "CHUNK", 64)
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


def test_frozen_parameters_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list has a tensor for every parameter of the group, frozen or not."""
    problem = Problem(torch.float32)
    problem.model[0].bias.requires_grad_(False)
    opt = vadam.Vprop(problem.model.parameters(), lr=0.1, num_data=40)
    lam = [torch.full_like(p, 1.0 + i) for i, p in enumerate(problem.model.parameters())]
    set_precisions(opt, lam, monkeypatch)
    (bucket,) = opt._buckets()
    assert [float(x.mean()) for x in bucket.rule_args["lam"]] == [1.0, 3.0, 4.0]
    assert [x.shape for x in bucket.rule_args["lam"]] == [p.shape for p in bucket.params]
