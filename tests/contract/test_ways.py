"""The three ways of use: closure, context, attach; one sample and several."""

import pytest
import torch

import vadam
from specs import SPECS, Problem, Spec, same, snapshot, tolerance

WAYS = [pytest.param(spec, way, id=f"{spec}-{way}") for spec in SPECS for way in spec.ways]
LOOPS = [pytest.param(spec, way, id=f"{spec}-{way}") for spec in SPECS for way in spec.ways if way != "closure"]


@pytest.mark.parametrize("samples", [1, 8])
@pytest.mark.parametrize(("spec", "way"), WAYS)
def test_training_lowers_the_loss_and_ends_at_the_mean(spec: Spec, way: str, samples: int) -> None:
    if not spec.differentiable and samples == 1:
        pytest.skip("one value alone has no baseline and says nothing about a direction")
    problem = Problem()
    opt = spec.make_for(problem.model, samples=samples)
    if way == "attach":
        opt.attach(problem.model)
    with torch.no_grad():
        before = float(Problem().loss())
    for _ in range(60):
        problem.step(opt, spec, way)
    problem.model.eval()
    with torch.no_grad():
        after = float(problem.loss())
        again = float(problem.loss())
    assert after == again  # the model holds the mean: no noise
    assert after < before
    assert set(opt.state[next(iter(problem.model.parameters()))]) == spec.state


@pytest.mark.parametrize("samples", [1, 4])
@pytest.mark.parametrize(("spec", "way"), LOOPS)
def test_all_ways_take_the_same_step(spec: Spec, way: str, samples: int) -> None:
    """Given the same noise, closure, context and loop agree to rounding: they differ in bookkeeping only."""
    results = {}
    for name in ("closure", way):
        problem = Problem()
        opt = spec.make_for(problem.model, samples=samples, generator=torch.Generator().manual_seed(5))
        if name == "attach":
            opt.attach(problem.model)
        for _ in range(5):
            problem.step(opt, spec, name)
        results[name] = problem.weights() + snapshot(opt)
    for a, b in zip(results["closure"], results[way], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_closure_is_called_at_different_weights_and_its_mean_loss_is_returned(spec: Spec) -> None:
    problem = Problem()
    opt = spec.make_for(problem.model, samples=8)
    losses, seen = [], []

    def closure():
        opt.zero_grad()
        loss = problem.loss()
        if spec.backward:
            loss.backward()
        losses.append(loss.item())
        seen.append(problem.weights())
        return loss

    start = problem.weights()
    mean_loss = opt.step(closure)
    assert len(losses) == 8
    assert float(mean_loss) == pytest.approx(sum(losses) / 8, rel=tolerance(1e-12, 1e-6))
    assert all(not same(a, start) for a in seen)
    assert all(not same(a, b) for i, a in enumerate(seen) for b in seen[:i])


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_antithetic_samples_come_in_pairs(spec: Spec) -> None:
    problem = Problem()
    opt = spec.make_for(problem.model, samples=4, antithetic=True)
    mean, seen = problem.weights(), []

    def closure():
        opt.zero_grad()
        loss = problem.loss()
        if spec.backward:
            loss.backward()
        seen.append(problem.weights())
        return loss

    opt.step(closure)
    for a, b in ((0, 1), (2, 3)):
        for mu, plus, minus in zip(mean, seen[a], seen[b], strict=True):
            torch.testing.assert_close((plus + minus) / 2, mu, rtol=0, atol=tolerance(1e-14, 1e-6))
    assert not same(seen[0], seen[2])


@pytest.mark.parametrize("spec", [s for s in SPECS if "context" in s.ways], ids=str)
def test_a_block_without_backward_is_a_plain_draw(spec: Spec) -> None:
    """Drawing from the posterior between steps changes neither the estimate nor the update."""
    results = []
    for draws in (0, 3):
        problem = Problem()
        opt = spec.make_for(problem.model, generator=torch.Generator().manual_seed(1))
        problem.step(opt, spec, "context")
        state = opt.generator.get_state()
        for _ in range(draws):
            with opt.sampled_params(), torch.no_grad():
                problem.loss()
        opt.generator.set_state(state)
        problem.step(opt, spec, "context")
        results.append(problem.weights())
    assert same(*results)


@pytest.mark.parametrize("spec", [s for s in SPECS if "attach" in s.ways], ids=str)
def test_attached_model(spec: Spec) -> None:
    problem = Problem()
    opt = spec.make(problem.model.parameters()).attach(problem.model)
    mean = problem.weights()
    with torch.no_grad():  # no gradient can follow: nothing to perturb for
        problem.model(problem.x)
    assert same(problem.weights(), mean)
    loss = problem.loss()
    perturbed = problem.weights()
    assert not same(perturbed, mean)
    loss.backward()
    problem.model.eval()
    with torch.no_grad():
        problem.loss()
    assert same(problem.weights(), mean)  # an eval-mode forward sees the mean
    problem.model.train()
    problem.loss()
    assert same(problem.weights(), perturbed)  # and the step's sample comes back
    opt.eval()
    assert same(problem.weights(), mean)
    opt.train()
    opt.train()
    assert same(problem.weights(), perturbed)
    opt.eval()  # validation between backward and step: the step uses the sample all the same
    opt.step()
    assert not same(problem.weights(), mean)
    opt.detach()
    mean = problem.weights()
    problem.loss()
    assert same(problem.weights(), mean)


@pytest.mark.parametrize("spec", [s for s in SPECS if "attach" in s.ways], ids=str)
def test_sampled_params_perturbs_an_attached_model_once(spec: Spec) -> None:
    problem = Problem()
    opt = spec.make(problem.model.parameters()).attach(problem.model)
    with opt.sampled_params():
        inside = problem.weights()
        problem.loss().backward()
        assert same(problem.weights(), inside)
    opt.step()


@pytest.mark.parametrize("spec", [s for s in SPECS if "context" in s.ways], ids=str)
def test_a_step_at_the_mean_is_refused(spec: Spec) -> None:
    problem = Problem()
    opt = spec.make_for(problem.model)
    if spec.needs_attach:
        problem.model.eval()
    problem.loss().backward()
    before = problem.weights()
    with pytest.raises(RuntimeError, match="without a sample"):
        opt.step()
    assert same(problem.weights(), before)


@pytest.mark.parametrize("spec", [s for s in SPECS if s.ways == ("closure",)], ids=str)
def test_optimizers_that_evaluate_the_loss_say_so(spec: Spec) -> None:
    problem = Problem()
    opt = spec.make(problem.model.parameters())
    with pytest.raises(RuntimeError, match=r"needs step\(closure\)"):
        opt.step()


def test_vogn_without_attach_says_so() -> None:
    problem = Problem()
    opt = vadam.VOGN(problem.model.parameters(), num_data=40)
    with pytest.raises(RuntimeError, match=r"call opt.attach\(model\) once"):
        opt.step(lambda: problem.loss())
