"""Operations on gradients between backward and step have the intended effect: scaling, clipping, accumulation, overflow."""

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

import vadam
from specs import SPECS, Problem, Spec, same, snapshot, tolerance

LOOPS = [pytest.param(spec, way, id=f"{spec}-{way}") for spec in SPECS for way in spec.ways if way != "closure"]
ROWS = [slice(0, 20), slice(20, 40)]


def run(spec: Spec, way: str, body, *, samples: int = 1, steps: int = 3) -> tuple[Problem, object]:
    problem = Problem()
    opt = spec.make_for(problem.model, samples=samples, generator=torch.Generator().manual_seed(11))
    if way == "attach":
        opt.attach(problem.model)
    for _ in range(steps):
        opt.zero_grad()
        body(problem, opt)
    return problem, opt


def backward(problem: Problem, opt, way: str, scale: float = 1.0) -> None:
    for _ in range(opt.samples):
        if way == "context":
            with opt.sampled_params():
                (problem.loss() * scale).backward()
        else:
            (problem.loss() * scale).backward()


def close(a, b, tol: float = 1e-12) -> None:
    for x, y in zip(a[0].weights() + snapshot(a[1]), b[0].weights() + snapshot(b[1]), strict=True):
        torch.testing.assert_close(x, y, rtol=tol, atol=tol)


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize(("spec", "way"), LOOPS)
def test_norm_clipping_equals_scaling_the_loss(spec: Spec, way: str, samples: int) -> None:
    """Clipping by norm multiplies ĝ by some c < 1; so does a loss multiplied by c. Both give the same step."""
    factors = []

    def clipped(problem, opt):
        backward(problem, opt, way)
        total = clip_grad_norm_(problem.model.parameters(), 0.05)
        factors.append(float((0.05 / (total + 1e-6)).clamp(max=1.0)))
        opt.step()

    a = run(spec, way, clipped, samples=samples)
    assert max(factors) < 1
    queue = iter(factors)

    def scaled(problem, opt):
        backward(problem, opt, way, next(queue))
        opt.step()

    close(a, run(spec, way, scaled, samples=samples), tol=tolerance(1e-9, 2e-4))


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize(("spec", "way"), LOOPS)
def test_scaling_gradients_equals_scaling_the_loss_for_deterministic_weights(
    spec: Spec, way: str, samples: int
) -> None:
    """A deterministic weight has ĥ = ĝ∘ĝ, which grows with the square of the loss, also where that of sampled weights does not."""
    finished = []
    for on_gradients in (True, False):
        problem = Problem()
        groups = [
            {"params": problem.model[0].parameters()},
            {"params": problem.model[2].parameters(), "deterministic": True},
        ]
        opt = spec.make(groups, samples=samples, generator=torch.Generator().manual_seed(11))
        if way == "attach" or spec.needs_attach:
            opt.attach(problem.model)
        for factor in (0.1, 8.0, 0.5):
            opt.zero_grad()
            backward(problem, opt, way, 1.0 if on_gradients else factor)
            for p in problem.model.parameters():
                p.grad.mul_(factor if on_gradients else 1.0)
            opt.step()
        finished.append((problem, opt))
    close(*finished, tol=tolerance(1e-9, 2e-4))


@pytest.mark.parametrize("unscale", [False, True], ids=["step", "unscale_"])
@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize(("spec", "way"), LOOPS)
def test_grad_scaler_changes_nothing(spec: Spec, way: str, samples: int, unscale: bool) -> None:
    def plain(problem, opt):
        backward(problem, opt, way)
        opt.step()

    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1000)

    def scaled(problem, opt):
        for _ in range(opt.samples):
            if way == "context":
                with opt.sampled_params():
                    scaler.scale(problem.loss()).backward()
            else:
                scaler.scale(problem.loss()).backward()
        if unscale:
            scaler.unscale_(opt)
        scaler.step(opt)
        scaler.update()

    close(run(spec, way, plain, samples=samples), run(spec, way, scaled, samples=samples))


@pytest.mark.parametrize(("spec", "way"), LOOPS)
def test_a_step_that_the_scaler_skips_leaves_the_mean(spec: Spec, way: str) -> None:
    problem = Problem()
    opt = spec.make_for(problem.model)
    if way == "attach":
        opt.attach(problem.model)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    weights, state = problem.weights(), None
    for overflow in (True, False):
        opt.zero_grad()
        loss = lambda: problem.loss() * (float("inf") if overflow else 1.0)  # noqa: B023, E731
        if way == "context":
            with opt.sampled_params():
                scaler.scale(loss()).backward()
        else:
            scaler.scale(loss()).backward()
        scaler.step(opt)
        scaler.update()
        if overflow:
            assert same(problem.weights(), weights)
            assert opt.skipped_steps == 1
            state = snapshot(opt)
    assert not same(problem.weights(), weights)
    assert not same(snapshot(opt), state)
    assert scaler.get_scale() == 512.0


@pytest.mark.parametrize(("spec", "way"), LOOPS)
def test_accumulation_over_micro_batches_equals_the_whole_batch(spec: Spec, way: str) -> None:
    """Two halves in one sample, each loss divided by two, are the whole minibatch."""

    def whole(problem, opt):
        backward(problem, opt, way)
        opt.step()

    def halves(problem, opt):
        if way == "context":
            with opt.sampled_params():
                for rows in ROWS:
                    (problem.loss(rows) / 2).backward()
        else:
            for rows in ROWS:
                (problem.loss(rows) / 2).backward()
        opt.step()

    close(run(spec, way, whole), run(spec, way, halves), tol=tolerance(1e-11, 2e-4))


@pytest.mark.parametrize("there", [0.0, 0.25])
@pytest.mark.parametrize("spec", [s for s in SPECS if "context" in s.ways], ids=str)
def test_a_closure_that_does_not_clear_gradients_adds_to_what_is_there(spec: Spec, there: float) -> None:
    """Each sample adds to the gradient before the step: to zeros of zero_grad(set_to_none=False); one taken at the mean is refused."""
    problem = Problem()
    opt = spec.make_for(problem.model, samples=2)
    marks = []

    def closure():
        before = [p.grad.clone() for p in problem.model.parameters()]
        loss = problem.loss()
        loss.backward()
        marks.append(before)
        return loss

    for p in problem.model.parameters():
        p.grad = torch.full_like(p, there)
    weights = problem.weights()
    if there:
        with pytest.raises(RuntimeError, match="the closure adds to a gradient that was not taken at its sample"):
            opt.step(closure)
        assert all(torch.equal(a, b) for a, b in zip(weights, problem.weights(), strict=True))
    else:
        opt.step(closure)
        assert len(marks) % 2 == 0
    assert all((g == there).all() for before in marks for g in before)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_nonfinite_gradients_are_refused_or_skipped(spec: Spec) -> None:
    problem = Problem()
    opt = spec.make(problem.model.named_parameters(), samples=2)
    if spec.needs_attach:
        opt.attach(problem.model)
    problem.step(opt, spec)
    weights, state = problem.weights(), snapshot(opt)
    problem.y[0] = float("nan")

    def step_and_look() -> int:
        problem.step(opt, spec)
        return opt.skipped_steps  # on a GPU the flags of the step are looked at here

    with pytest.raises(FloatingPointError, match=r"'\d.(weight|bias)' of shape .* is not finite"):
        step_and_look()
    assert same(problem.weights(), weights)
    assert same(snapshot(opt), state)
    opt.nonfinite = "skip"
    problem.step(opt, spec)
    assert opt.skipped_steps == 1
    assert same(problem.weights(), weights)
    assert same(snapshot(opt), state)


@pytest.mark.parametrize("samples", [2, 3])
def test_gradients_that_share_one_buffer(samples: int) -> None:
    """Code that computes gradients may write all of them to one buffer, as DistributedDataParallel does."""
    w = torch.nn.Parameter(torch.zeros(3))
    opt = vadam.Vadam([w], num_data=10, samples=samples, generator=torch.Generator().manual_seed(0))
    buffer, given = torch.empty(3), []

    def closure() -> torch.Tensor:
        given.append(torch.full((3,), float(len(given) + 1)))
        w.grad = buffer.copy_(given[-1])
        return torch.zeros(())

    opt.step(closure)
    torch.testing.assert_close(w.grad, torch.stack(given).mean(0))


@pytest.mark.parametrize("antithetic", [False, True])
def test_weights_may_move_between_the_samples_of_a_closure(antithetic: bool) -> None:
    """A closure gives its parameters other memory: the next sample is drawn there, and the step is the same."""

    def trained(*, moves: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        opt = vadam.Vadam(model.parameters(), num_data=10, samples=4, antithetic=antithetic, lr=0.1)
        x = torch.randn(5, 3)
        seen = []

        def closure() -> torch.Tensor:
            opt.zero_grad()
            if moves:
                for p in model.parameters():
                    p.data = p.data.clone()
            seen.append(model.weight.detach().clone())
            loss = model(x).square().mean()
            loss.backward()
            return loss

        for _ in range(3):
            opt.step(closure)
        return [*seen, *(p.detach() for p in model.parameters())]

    still, moved = trained(moves=False), trained(moves=True)
    assert all(torch.equal(a, b) for a, b in zip(still, moved, strict=True))
    assert len({tuple(w.flatten().tolist()) for w in still[:12]}) == 12


@pytest.mark.parametrize("backend", ["plain", "auto"])
def test_a_weight_that_a_closure_freezes_holds_its_mean_in_the_next_samples(backend: str) -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    opt = vadam.Vadam(model.parameters(), num_data=10, samples=3, backend=backend)
    mean, seen = model.weight.detach().clone(), []

    def closure() -> torch.Tensor:
        opt.zero_grad()
        seen.append(model.weight.detach().clone())
        loss = model(torch.ones(5, 3)).square().mean()
        loss.backward()
        model.weight.requires_grad_(False)
        return loss

    opt.step(closure)
    assert not torch.equal(seen[0], mean)
    assert torch.equal(seen[1], mean)
    assert torch.equal(seen[2], mean)
