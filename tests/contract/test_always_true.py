"""Invariants: the mean is restored, weights change in place, state is per parameter, noise comes from the generator."""

import copy
import io
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import vadam
from specs import BY_NAME, SPECS, Problem, Spec, same, snapshot

CONTEXT = [s for s in SPECS if "context" in s.ways]
GRADIENT = [s for s in SPECS if s.differentiable]


class Boom(Exception):
    pass


@pytest.mark.parametrize("error", [Boom, KeyboardInterrupt])
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_an_exception_in_the_closure_restores_the_mean(spec: Spec, error: type[BaseException]) -> None:
    problem = Problem()
    opt = spec.make_for(problem.model, samples=4)
    problem.step(opt, spec)
    weights, state, calls = problem.weights(), snapshot(opt), 0

    def closure():
        nonlocal calls
        calls += 1
        opt.zero_grad()
        loss = problem.loss()
        if spec.backward:
            loss.backward()
        if calls == 3:
            raise error
        return loss

    with pytest.raises(error):
        opt.step(closure)
    assert same(problem.weights(), weights)
    assert same(snapshot(opt), state)
    problem.step(opt, spec)  # and training goes on
    assert not same(problem.weights(), weights)


@pytest.mark.parametrize("error", [Boom, KeyboardInterrupt])
@pytest.mark.parametrize("spec", CONTEXT, ids=str)
def test_an_exception_in_the_context_restores_the_mean_and_the_estimate(spec: Spec, error: type[BaseException]) -> None:
    """A sample that failed leaves no trace: the step equals one that never saw it."""
    results = []
    for fail in (False, True):
        problem = Problem()
        opt = spec.make_for(problem.model, generator=torch.Generator().manual_seed(3))
        weights = problem.weights()
        with opt.sampled_params():
            problem.loss().backward()
        state = opt.generator.get_state()
        if fail:
            with pytest.raises(error), opt.sampled_params():  # noqa: PT012
                problem.loss().backward()
                raise error
            assert same(problem.weights(), weights)
        opt.generator.set_state(state)
        with opt.sampled_params():
            problem.loss().backward()
        opt.step()
        results.append(problem.weights())
    assert same(*results)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_weights_are_changed_in_place(spec: Spec) -> None:
    problem = Problem()
    addresses = [p.data_ptr() for p in problem.model.parameters()]
    opt = spec.make_for(problem.model, samples=2)
    for way in spec.ways:
        problem.step(opt.attach(problem.model) if way == "attach" else opt, spec, way)
    assert [p.data_ptr() for p in problem.model.parameters()] == addresses


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_noise_comes_from_the_given_generator_alone(spec: Spec) -> None:
    def run(global_seed: int, seed: int) -> list[torch.Tensor]:
        torch.manual_seed(global_seed)
        problem = Problem()
        opt = spec.make_for(problem.model, samples=2, generator=torch.Generator().manual_seed(seed))
        untouched = torch.get_rng_state()
        for _ in range(3):
            problem.step(opt, spec)
        assert torch.equal(torch.get_rng_state(), untouched)
        return problem.weights()

    assert same(run(1, 7), run(2, 7))
    assert not same(run(1, 7), run(1, 8))


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_without_a_generator_torch_manual_seed_decides(spec: Spec) -> None:
    def run(seed: int) -> list[torch.Tensor]:
        problem = Problem()
        opt = spec.make_for(problem.model)
        torch.manual_seed(seed)
        for _ in range(3):
            problem.step(opt, spec)
        return problem.weights()

    assert same(run(4), run(4))
    assert not same(run(4), run(5))


_RESUME = """
import sys, torch
sys.path.insert(0, {tests!r})
from specs import SPECS, Problem
for spec in SPECS:
    problem = Problem()
    saved = torch.load({folder!r} + "/" + spec.name + ".pt", weights_only=True)
    problem.model.load_state_dict(saved["model"])
    opt = spec.make_for(problem.model, samples=2, lr=123.0, generator=torch.Generator() if {given} else None)
    opt.load_state_dict(saved["opt"])
    for _ in range(4):
        problem.step(opt, spec)
    torch.save(problem.weights(), {folder!r} + "/" + spec.name + ".out")
"""


@pytest.mark.parametrize("given", [True, False], ids=["generator", "default"])
def test_resume_in_a_new_process_is_bit_exact(given: bool, tmp_path: Path) -> None:
    weights = {}
    for spec in SPECS:
        problem = Problem()
        opt = spec.make_for(problem.model, samples=2, generator=torch.Generator().manual_seed(9) if given else None)
        for _ in range(3):
            problem.step(opt, spec)
        torch.save({"model": problem.model.state_dict(), "opt": opt.state_dict()}, tmp_path / f"{spec.name}.pt")
        for _ in range(4):
            problem.step(opt, spec)
        weights[spec.name] = problem.weights()
    script = _RESUME.format(tests=str(Path(__file__).parents[1]), folder=str(tmp_path), given=given)
    subprocess.run([sys.executable, "-c", script], check=True)
    for name, expected in weights.items():
        assert same(torch.load(tmp_path / f"{name}.out", weights_only=True), expected), name


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_resume_from_a_state_dict_is_bit_exact(spec: Spec) -> None:
    problem = Problem()
    opt = spec.make_for(problem.model)
    for _ in range(3):
        problem.step(opt, spec)
    buffer = io.BytesIO()
    torch.save({"model": problem.model.state_dict(), "opt": opt.state_dict()}, buffer)
    for _ in range(3):
        problem.step(opt, spec)
    buffer.seek(0)
    saved = torch.load(buffer, weights_only=True)
    resumed = Problem(seed=1)
    resumed.x, resumed.y = problem.x, problem.y
    resumed.model.load_state_dict(saved["model"])
    opt2 = spec.make_for(resumed.model, lr=9.0)
    opt2.load_state_dict(saved["opt"])
    for _ in range(3):
        resumed.step(opt2, spec)
    assert same(resumed.weights(), problem.weights())
    assert same(snapshot(opt2), snapshot(opt))


def test_a_checkpoint_of_another_optimizer_is_refused() -> None:
    problem = Problem()
    opt = BY_NAME["Vadam"].make(problem.model.parameters())
    problem.step(opt, BY_NAME["Vadam"])
    with pytest.raises(ValueError, match="not of a Vprop"):
        BY_NAME["Vprop"].make(problem.model.parameters()).load_state_dict(opt.state_dict())


@pytest.mark.parametrize("how", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_copies_train_on_as_the_original_would(spec: Spec, how) -> None:
    problem = Problem()
    opt = spec.make_for(problem.model, samples=2, generator=torch.Generator().manual_seed(2))
    problem.step(opt, spec)
    twin, twin_opt = how((problem, opt))
    if spec.needs_attach:
        twin_opt.attach(twin.model)
    for _ in range(3):
        problem.step(opt, spec)
        twin.step(twin_opt, spec)
    assert same(twin.weights(), problem.weights())
    assert same(snapshot(twin_opt), snapshot(opt))


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_frozen_and_unused_parameters(spec: Spec) -> None:
    """A frozen weight is neither sampled nor trained; one that the loss does not touch is not trained."""
    problem = Problem()
    problem.model.register_parameter("unused", nn.Parameter(torch.ones(2, dtype=problem.dtype)))
    problem.model[0].bias.requires_grad_(False)
    frozen = problem.model[0].bias.clone()
    opt = spec.make_for(problem.model, samples=2)
    for way in spec.ways:
        problem.step(opt.attach(problem.model) if way == "attach" else opt, spec, way)
    assert torch.equal(problem.model[0].bias, frozen)
    if spec.differentiable:
        assert torch.equal(problem.model.unused.detach(), torch.ones(2, dtype=problem.dtype))
    assert "0.bias" in opt.posterior(problem.model).point


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_posterior_of_weights_that_were_all_frozen_after_training_is_refused(spec: Spec) -> None:
    """Points would predict without any epistemic uncertainty."""
    problem = Problem()
    opt = spec.make_for(problem.model)
    problem.step(opt, spec, spec.ways[0])
    count = opt.posterior(problem.model).num_weights
    problem.model.requires_grad_(False)
    with pytest.raises(RuntimeError, match="frozen"):
        opt.posterior(problem.model)
    problem.model.requires_grad_(True)
    assert opt.posterior(problem.model).num_weights == count


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_groups_have_their_own_priors(spec: Spec) -> None:
    problem = Problem()
    first, second = problem.model[0].parameters(), problem.model[2].parameters()
    if spec.has_prior:
        changed = {"prior_precision": 7.0} | ({} if "hess_init" in spec.kwargs else {"init_precision": 30.0})
    else:
        changed = {"init_precision": 30.0}
    opt = spec.make([{"params": first}, {"params": second, **changed}])
    if spec.needs_attach:
        opt.attach(problem.model)
    post = opt.posterior(problem.model)
    if spec.has_prior:
        assert post.prior_precision["0.weight"] == 2.0
        assert post.prior_precision["2.weight"] == 7.0
    problem.step(opt, spec)
    if not spec.mean_field:
        with pytest.raises(ValueError, match=r"lr must be the same in all groups of FullVON, got 0.5"):
            opt.add_param_group({"params": [nn.Parameter(torch.zeros(1))], "lr": 0.5})
        return
    extra = nn.Parameter(torch.zeros(3, dtype=problem.dtype))
    problem.model.register_parameter("extra", extra)
    opt.add_param_group({"params": [extra], "lr": 0.5})
    problem.step(opt.attach(problem.model) if spec.needs_attach else opt, spec)
    with pytest.raises(ValueError, match=r"lr must be in \[0, inf\), got -1"):
        opt.add_param_group({"params": [nn.Parameter(torch.zeros(1))], "lr": -1})
    with pytest.raises(ValueError, match=r"unknown argument 'weight_decay'"):
        opt.add_param_group({"params": [nn.Parameter(torch.zeros(1))], "weight_decay": 0.1})
    assert len(opt.param_groups) == 3


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_groups_given_to_a_second_optimizer_take_its_own_arguments(spec: Spec) -> None:
    """A loop over tasks or settings that writes its groups once must not keep the first one's num_data, prior and start."""
    problem = Problem()
    layers = problem.model[0], problem.model[2]
    groups = [{"params": layer.parameters()} for layer in layers]  # generators, which can be read only once
    first = spec.make(groups, num_data=10)
    second = spec.make(groups, num_data=1000)
    fresh = spec.make([{"params": layer.parameters()} for layer in layers], num_data=1000)
    assert [group["num_data"] for group in first.param_groups] == [10, 10]
    assert second.param_groups == fresh.param_groups


@pytest.mark.parametrize("spec", GRADIENT, ids=str)
def test_a_deterministic_group_is_trained_and_not_sampled(spec: Spec) -> None:
    problem = Problem()
    groups = [
        {"params": problem.model[0].parameters()},
        {"params": problem.model[2].parameters(), "deterministic": True},
    ]
    opt = spec.make(groups, samples=2)
    if spec.needs_attach:
        opt.attach(problem.model)
    seen, before = [], problem.weights()

    def closure():
        opt.zero_grad()
        loss = problem.loss()
        if spec.backward:
            loss.backward()
        seen.append(problem.weights())
        return loss

    opt.step(closure)
    assert all(torch.equal(w[2], before[2]) and torch.equal(w[3], before[3]) for w in seen)
    assert not torch.equal(seen[0][0], before[0])
    for _ in range(20):
        opt.step(closure)
    assert not torch.equal(problem.model[2].weight, before[2])
    post = opt.posterior(problem.model)
    assert set(post.point) == {"2.weight", "2.bias"}


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_schedulers_change_the_rate(spec: Spec) -> None:
    problem, plain = Problem(), Problem()
    opt = spec.make_for(problem.model, generator=torch.Generator().manual_seed(0))
    reference = spec.make_for(plain.model, generator=torch.Generator().manual_seed(0))
    scheduler = torch.optim.lr_scheduler.StepLR(opt, step_size=1, gamma=0.1)
    problem.step(opt, spec)
    scheduler.step()
    assert opt.param_groups[0]["lr"] == pytest.approx(0.1 * spec.kwargs["lr"])
    plain.step(reference, spec)
    assert same(problem.weights(), plain.weights())
    reference.param_groups[0]["lr"] *= 0.1
    for twin, o in ((problem, opt), (plain, reference)):
        twin.step(o, spec)
    for a, b in zip(problem.weights(), plain.weights(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=0)
    if "momentum" not in spec.kwargs:
        opt.param_groups[0]["lr"] = 0.0
        before = problem.weights()
        problem.step(opt, spec)
        assert same(problem.weights(), before)


@pytest.mark.parametrize("spec", [s for s in CONTEXT if s.name != "VadaGrad"], ids=str)
def test_half_precision_weights_keep_float32_state(spec: Spec) -> None:
    problem = Problem(torch.bfloat16)
    opt = spec.make_for(problem.model)
    for _ in range(3):
        problem.step(opt, spec)
    p = problem.model[0].weight
    assert p.dtype == torch.bfloat16
    assert opt.state[p]["s" if "s" in opt.state[p] else "rho"].dtype == torch.float32
    saved, weights = copy.deepcopy(opt.state_dict()), problem.weights()
    problem.step(opt, spec)
    after = problem.weights()
    twin = Problem(torch.bfloat16)
    for a, b in zip(twin.model.parameters(), weights, strict=True):
        a.data.copy_(b)
    opt2 = spec.make_for(twin.model)
    opt2.load_state_dict(saved)
    twin.step(opt2, spec)
    assert same(twin.weights(), after)


@pytest.mark.parametrize("spec", [s for s in SPECS if s.mean_field], ids=str)
def test_mixed_dtypes_tied_weights_and_empty_parameters(spec: Spec) -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(3, 3, dtype=torch.float64)
            self.second = nn.Linear(3, 3, dtype=torch.float64)
            self.second.weight = self.first.weight  # tied
            self.last = nn.Linear(3, 1, dtype=torch.float32)
            self.empty = nn.Parameter(torch.zeros(0, 3))

        def forward(self, x):
            return self.last(self.second(self.first(x).tanh()).float()).double()

    problem = Problem(torch.float64)
    problem.model = Odd()
    opt = spec.make_for(problem.model, samples=2)
    for way in spec.ways:
        problem.step(opt.attach(problem.model) if way == "attach" else opt, spec, way)
    assert problem.model.first.weight is problem.model.second.weight
    assert problem.model.last.weight.dtype == torch.float32
    post = opt.posterior(problem.model)
    assert "second.weight" not in post.mean
    assert post.mean["empty"].shape == (0, 3)


def precisions(spec: Spec, post: Any) -> Tensor:
    """Return the precision of every weight, of a full covariance the diagonal."""
    return torch.cat([p.flatten() for p in post.precision.values()]) if spec.mean_field else post.precision.diagonal()


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_posterior_is_a_snapshot(spec: Spec) -> None:
    problem = Problem()
    opt = spec.make_for(problem.model)
    expected = spec.kwargs.get("init_precision", 40 * 0.5 + 2.0)
    precision = precisions(spec, opt.posterior(problem.model))
    torch.testing.assert_close(precision, torch.full_like(precision, expected))
    problem.step(opt, spec)
    post = opt.posterior(problem.model)
    mean, precision = post.sample(1, generator=torch.Generator().manual_seed(0)), precisions(spec, post).clone()
    assert (precision > 0).all()
    problem.step(opt, spec)
    after = opt.posterior(problem.model)
    for later, unchanged in ((post, True), (after, False)):
        drawn = later.sample(1, generator=torch.Generator().manual_seed(0))
        assert same([*drawn.values()], [*mean.values()]) == unchanged
        assert torch.equal(precisions(spec, later), precision) == unchanged
    if "attach" in spec.ways:
        opt.attach(problem.model)
        mean = problem.weights()[0]
        problem.loss()
        assert torch.equal(opt.posterior().mean["0.weight"], mean)  # the mean, also in the middle of a sample


def test_names_come_from_named_parameters_too() -> None:
    problem = Problem()
    named = vadam.Vadam(problem.model.named_parameters(), num_data=40)
    assert set(named.posterior().mean) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert set(vadam.Vadam(problem.model.parameters(), num_data=40).posterior().mean) == {"0", "1", "2", "3"}
    groups = [{"params": problem.model[2].parameters()}, {"params": problem.model[0].parameters()}]
    grouped = vadam.Vadam(groups, num_data=40)
    assert set(grouped.posterior().mean) == {"0.0", "0.1", "1.0", "1.1"}
    with pytest.raises(ValueError, match=r"0\.0"):  # the order of groups is not the model's: nothing is guessed
        vadam.predict(problem.model, grouped.posterior(), problem.x)
