"""Attacks of a hostile reader: copies in a sample, two optimizers over one model, errors in a draw, wrong values in groups."""

import copy
import io
import pickle
import re
import warnings
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad
from torch.utils.checkpoint import checkpoint

import vadam
from specs import BY_NAME, SPECS, Problem, Spec, same, snapshot

BACKENDS = pytest.mark.parametrize("backend", ["plain", "native"])
LOOPS = pytest.mark.parametrize("spec", [spec for spec in SPECS if "attach" in spec.ways], ids=str)


def saved(model: nn.Module) -> nn.Module:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)  # type: ignore[no-any-return]


class Direct(nn.Module):
    """Has a parameter of its own beside those of a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.layer = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.scale * x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), saved])
def test_a_model_that_is_copied_in_a_sample_is_copied_at_its_mean(copied: Callable[[nn.Module], nn.Module]) -> None:
    model = Direct()
    opt = vadam.Vadam(model.parameters(), lr=0.1, num_data=10).attach(model)
    mean = [p.detach().clone() for p in model.parameters()]
    model(torch.ones(4, 3))
    assert opt.holds_sample
    found = copied(model)
    assert same([*found.parameters()], mean)
    assert [*found.state_dict()] == [*model.state_dict()]
    found(torch.ones(4, 3))
    assert same([*found.parameters()], mean), "the copy's hooks do nothing"
    model(torch.ones(4, 3)).sum().backward()  # the sample comes back
    opt.step()
    assert not same([*model.parameters()], mean)


@LOOPS
@BACKENDS
def test_a_second_optimizer_is_refused_while_the_first_holds_a_sample(spec: Spec, backend: str) -> None:
    """Each would keep the other's sample as its mean."""
    problem = Problem(torch.float32)
    first = spec.make(problem.model.parameters(), backend=backend).attach(problem.model)
    mean = problem.weights()
    problem.loss()
    second = spec.make_for(problem.model, backend=backend)
    with pytest.raises(RuntimeError, match=r"hold a sample of another optimizer, opened by a training-mode forward"):
        second.sampled_params().__enter__()
    first.eval()
    assert same(problem.weights(), mean)
    first.detach()
    with second.sampled_params():
        assert not same(problem.weights(), mean)
    assert same(problem.weights(), mean)


@LOOPS
@BACKENDS
@pytest.mark.parametrize("store_mean", [True, False])
def test_the_prior_of_a_second_optimizer_is_the_mean_while_the_first_holds_a_sample(
    spec: Spec, backend: str, store_mean: bool
) -> None:
    problem = Problem(torch.float64)
    first = spec.make(problem.model.parameters(), backend=backend, store_mean=store_mean).attach(problem.model)
    mean = problem.weights()
    problem.loss()
    second = vadam.Vadam(problem.model.parameters(), num_data=10, prior="init")
    assert first.holds_sample
    for p, mu in zip(problem.model.parameters(), mean, strict=True):
        torch.testing.assert_close(second.state[p]["prior_mean"], mu)


@LOOPS
@BACKENDS
@pytest.mark.parametrize("store_mean", [True, False])
def test_a_group_that_becomes_deterministic_in_a_sample_is_refused(spec: Spec, backend: str, store_mean: bool) -> None:
    """The update would take the sample for the mean, or change nothing; BBVI's wrote NaN."""
    problem = Problem(torch.float64)
    opt = spec.make(problem.model.parameters(), backend=backend, store_mean=store_mean).attach(problem.model)
    problem.step(opt, spec, "attach")
    mean = problem.weights()
    for _ in range(opt.samples):
        problem.loss().backward()
    opt.param_groups[0]["deterministic"] = True
    with pytest.raises(
        RuntimeError, match="deterministic was changed in a parameter group while the weights hold a sample"
    ):
        opt.step()
    for p, mu in zip(problem.weights(), mean, strict=True):
        torch.testing.assert_close(p, mu)
    problem.step(opt, spec, "attach")


class Twice(nn.Module):
    """Has one submodule in two places, as ``nn.Sequential(layer, nn.Tanh(), layer)``."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3).eval())
        self.second = self.first
        self.head = nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.second(self.first(x).tanh()))  # type: ignore[no-any-return]


@pytest.mark.parametrize("vmap", [True, False])
def test_a_module_in_two_places_keeps_its_weights_in_a_prediction(vmap: bool) -> None:
    """``torch.func.functional_call`` leaves the draw in it: training would go on without the weights of the network."""
    model, x = Twice(), torch.randn(5, 3)
    before = {name: (tensor, tensor.detach().clone()) for name, tensor in model.state_dict(keep_vars=True).items()}
    post = vadam.Vadam(model.parameters(), num_data=10, init_precision=4.0).posterior(model)
    draws = vadam.Draws(post, 9)
    pred = vadam.predict(model, draws, x, likelihood=None, vmap=vmap)
    for name, tensor in model.state_dict(keep_vars=True).items():
        assert tensor is before[name][0]
        assert torch.equal(tensor, before[name][1])
    for s in range(9):
        other = copy.deepcopy(model).eval()
        other.load_state_dict({name: draws.weights[name][s] for name in post.mean}, strict=False)
        torch.testing.assert_close(pred.samples[s], other(x).detach())


def test_a_module_in_two_places_keeps_its_weights_in_other_calls() -> None:
    x, y = torch.randn(6, 3), torch.randn(6, 1)
    model = Twice()
    weights = [*model.parameters()]
    vadam.baselines.DiagonalLaplace().fit(model, x, y, vadam.Gaussian(1.0), epochs=1)
    assert [*map(id, model.parameters())] == [*map(id, weights)]
    vadam.elbo(model, vadam.Vadam(weights, num_data=6).posterior(model), vadam.Gaussian(1.0), (x, y), num_data=6)
    assert [*map(id, model.parameters())] == [*map(id, weights)]


def test_a_model_in_data_parallel_predicts_as_itself() -> None:
    model, x = nn.Linear(3, 1), torch.randn(5, 3)
    wrapped = nn.DataParallel(model)
    post = vadam.Vadam(wrapped.parameters(), num_data=10).posterior(wrapped)
    assert [*post.mean] == ["weight", "bias"]
    draws = vadam.Draws(post, 4)
    found, wanted = (vadam.predict(m, draws, x, likelihood=None).samples for m in (wrapped, model))
    assert torch.equal(found, wanted)


def test_optimizers_over_different_parameters_hold_samples_together() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    mean = [p.detach().clone() for p in model.parameters()]
    first, second = (vadam.Vadam(layer.parameters(), lr=0.1, num_data=10) for layer in model)
    with first.sampled_params(), second.sampled_params():
        model(torch.ones(4, 2)).sum().backward()
    assert same([*model.parameters()], mean)
    first.step()
    second.step()


@LOOPS
@BACKENDS
def test_a_forward_pass_inside_a_transform_samples_plain_weights(spec: Spec, backend: str) -> None:
    """``torch.func`` wraps tensors: a mean that is kept wrapped is no mean."""
    problem = Problem(torch.float32)
    opt = spec.make(problem.model.parameters(), backend=backend).attach(problem.model)
    problem.step(opt, spec, "attach")
    mean = problem.weights()
    weights = {name: p.detach().clone() for name, p in problem.model.named_parameters()}
    if not spec.needs_attach:  # layers that record examples refuse transformed passes in their own words
        grad(lambda w: functional_call(problem.model, w, (problem.x,)).sum())(weights)
        assert opt.holds_sample
    opt.eval()
    assert same(problem.weights(), mean)
    opt.zero_grad()
    problem.step(opt, spec, "attach")
    assert all(p.isfinite().all() for p in problem.weights())


def test_an_error_before_the_weights_are_drawn_leaves_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Native loops keep means in memory that has no value before they ran."""
    model = nn.Linear(30, 20)
    opt = vadam.Vadam(model.parameters(), lr=0.1, num_data=10, backend="native")
    mean = [p.detach().clone() for p in model.parameters()]

    def no_kernel(*_: object, **__: object) -> None:
        raise MemoryError("no kernel")

    monkeypatch.setattr("vadam.backends.kernels.perturb", no_kernel)
    for _ in range(3):
        with pytest.raises(MemoryError, match="no kernel"), opt.sampled_params():
            pass
        assert same([*model.parameters()], mean)
        assert not opt.holds_sample


@LOOPS
@BACKENDS
@pytest.mark.parametrize("value", [float("nan"), -1.0, None, "0.1"])
def test_a_wrong_value_written_into_a_group_is_refused_by_name(spec: Spec, backend: str, value: object) -> None:
    problem = Problem(torch.float32)
    opt = spec.make(problem.model.parameters(), backend=backend).attach(problem.model)
    problem.step(opt, spec, "attach")
    mean, state = problem.weights(), snapshot(opt)
    rate, opt.param_groups[0]["lr"] = opt.param_groups[0]["lr"], value
    for _ in range(2):  # refused again, not only where it changes
        with pytest.raises(ValueError, match=r"lr must be in \[0, inf\), got"):
            problem.step(opt, spec, "attach")
        opt.eval()
        assert same(problem.weights(), mean)
        assert same(snapshot(opt), state)
    opt.param_groups[0]["lr"] = rate
    opt.zero_grad()
    problem.step(opt, spec, "attach")
    assert not same(problem.weights(), mean)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_parameter_whose_weights_share_memory_is_refused(spec: Spec) -> None:
    with pytest.raises(ValueError, match=r"of shape \(4,\) share one place in memory.*clone\(\)"):
        spec.make([nn.Parameter(torch.zeros(1).expand(4))])


@LOOPS
@BACKENDS
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_checkpoint_with_an_unsound_precision_is_refused(spec: Spec, backend: str, value: float) -> None:
    problem = Problem(torch.float32)
    opt = spec.make_for(problem.model, backend=backend)
    problem.step(opt, spec)
    state, broken = snapshot(opt), copy.deepcopy(opt.state_dict())
    for values in broken["state"].values():
        for name, x in values.items():
            if isinstance(x, Tensor) and x.shape:
                values[name] = torch.full_like(x, value)
    with pytest.raises(
        ValueError, match=r"this checkpoint is damaged: it gives a weight the precision (nan|-?inf|0\.0)"
    ):
        opt.load_state_dict(broken)
    assert same(snapshot(opt), state)
    problem.step(opt, spec)


@BACKENDS
@pytest.mark.parametrize("spec", [spec for spec in SPECS if not spec.needs_attach], ids=str)
def test_a_checkpoint_of_other_shapes_is_refused_and_changes_nothing(spec: Spec, backend: str) -> None:
    def trained(*shape: int) -> vadam.VariationalOptimizer:
        weight = nn.Parameter(torch.randn(*shape))
        opt = spec.make([weight], backend=backend)

        def closure() -> Tensor:
            opt.zero_grad()
            loss = weight.square().sum()
            if spec.backward:
                loss.backward()
            return loss

        opt.step(closure)
        return opt

    opt = trained(3, 5)
    state = snapshot(opt)
    for shape in ((4, 5), (5, 3)) if spec.mean_field else ((4, 5),):
        with pytest.raises((ValueError, RuntimeError), match=r"of another model|covariance of 20 weights, but now"):
            opt.load_state_dict(trained(*shape).state_dict())
        assert same(snapshot(opt), state)


@BACKENDS
def test_a_checkpoint_with_a_negative_average_is_refused(backend: str) -> None:
    problem = Problem(torch.float32)
    opt = vadam.Vadam(problem.model.parameters(), lr=0.1, num_data=10, backend=backend)
    opt.step(problem.closure(opt, SPECS[0]))
    broken = copy.deepcopy(opt.state_dict())
    broken["state"][0]["s"] -= 100
    with pytest.raises(ValueError, match=r"it gives a weight the precision -\d+"):
        opt.load_state_dict(broken)


@pytest.mark.parametrize(
    "extreme", [{"num_data": 1e-45}, {"data_weight": 1e-274}, {"temperature": 1e-320}, {"num_data": 1e300}]
)
def test_numbers_that_single_precision_cannot_hold_are_refused_by_name(extreme: dict[str, float]) -> None:
    (name, value), weight = *extreme.items(), nn.Parameter(torch.zeros(2))
    for optimizer in (vadam.Vadam, vadam.IVON, vadam.BBVI, vadam.VON):
        with pytest.raises(ValueError, match=re.escape(f"{name}={value!r}") + ".*single precision cannot hold"):
            optimizer([weight], **{"lr": 0.1, "num_data": 10, **extreme})


class Checkpointed(nn.Module):
    """Keeps no activations: its layers run again in the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.layers, x, use_reentrant=False)  # type: ignore[no-any-return]


@BACKENDS
@pytest.mark.parametrize("samples", [1, 2])
def test_a_backward_pass_at_the_mean_is_refused_where_autograd_does_not_notice(samples: int, backend: str) -> None:
    """A checkpointed layer reads its weights again, so an evaluation between forward and backward pass changes its gradient."""
    model, x = Checkpointed(), torch.ones(5, 3)
    opt = vadam.Vadam(model.parameters(), lr=0.1, num_data=10, samples=samples, backend=backend).attach(model)

    def evaluate() -> None:
        model.eval()(x)
        model.train()

    def refused_step() -> None:
        loss = model(x).sum()
        evaluate()
        loss.backward()
        if samples > 1:
            model(x).sum().backward()
        opt.step()

    mean = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(RuntimeError, match=r"a backward pass ran while the parameters held the mean"):
        refused_step()
    evaluate()
    assert same([*model.parameters()], mean)
    opt.zero_grad()
    for _ in range(samples):
        loss = model(x).sum()
        loss.backward()
        evaluate()
    opt.step()
    assert not same([*model.parameters()], mean)


def test_gradients_of_an_evaluation_are_no_concern_once_cleared() -> None:
    model, x = Checkpointed(), torch.ones(5, 3)
    opt = vadam.Vadam(model.parameters(), lr=0.1, num_data=10).attach(model)
    model(x)
    model.eval()(x).sum().backward()
    model.zero_grad()
    model.train()
    model(x).sum().backward()
    opt.step()
    assert not any(p._post_accumulate_grad_hooks for p in model.parameters())  # type: ignore[attr-defined]


@BACKENDS
def test_numbers_of_numpy_leave_a_checkpoint_that_torch_loads(backend: str) -> None:
    """Compute them as a sweep or a schedule does: ``torch.load`` takes no numbers of numpy by default."""
    model = nn.Linear(3, 1)
    betas = (np.float64(0.9), np.float64(0.99))
    opt = vadam.Vadam(
        model.parameters(), lr=np.logspace(-3, -1, 3)[1], betas=betas, num_data=np.float64(10), backend=backend
    )
    opt.attach(model)
    for _ in range(2):
        opt.zero_grad()
        model(torch.ones(4, 3)).sum().backward()
        opt.step()
        opt.param_groups[0]["lr"] *= np.float64(0.5)
    torch.save(opt.state_dict(), file := io.BytesIO())
    file.seek(0)
    again = vadam.Vadam(nn.Linear(3, 1).parameters(), num_data=10, backend=backend)
    again.load_state_dict(torch.load(file, weights_only=True))
    assert again.param_groups[0]["lr"] == 0.0025
    assert again.param_groups[0]["betas"] == (0.9, 0.99)


def test_a_checkpoint_of_torch_is_refused_as_one() -> None:
    model = nn.Linear(3, 1)
    adam = torch.optim.Adam(model.parameters())
    with pytest.raises(
        ValueError, match=r"or of another optimizer than Vadam: its parameter group has no 'batch_size'"
    ):
        vadam.Vadam(model.parameters(), num_data=10).load_state_dict(adam.state_dict())


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_parameters_of_one_name_are_not_lost_from_the_posterior(spec: Spec) -> None:
    """``named_parameters()`` of two modules give both a "weight": the posterior had only the last one."""
    body, head = nn.Linear(3, 3), nn.Linear(3, 3)
    opt = spec.make([{"params": part.named_parameters()} for part in (body, head)])
    with pytest.raises(
        ValueError, match=r"2 parameters of this optimizer are called 'weight'.*opt\.posterior\(model\)"
    ):
        opt.posterior()
    post = opt.posterior(nn.ModuleDict({"body": body, "head": head}))
    assert post.num_weights == 24
    named = [
        {"params": [(f"{name}.{n}", p) for n, p in part.named_parameters()]}
        for name, part in (("body", body), ("head", head))
    ]
    assert spec.make(named).posterior().num_weights == 24


@LOOPS
def test_the_mode_of_a_wrapped_model_is_that_of_the_module_inside(spec: Spec) -> None:
    """Lightning sets the wrapper to evaluation mode for a validation, and only the module inside back to training mode."""
    problem = Problem()
    wrapper = nn.DataParallel(problem.model)
    opt = spec.make(problem.model.parameters()).attach(wrapper)
    for inside, samples in ((True, True), (False, False)):
        wrapper.train(not inside)
        problem.model.train(inside)
        wrapper(problem.x)
        assert opt.holds_sample == samples


@LOOPS
def test_the_module_inside_a_wrapper_is_evaluated_and_saved_at_the_mean(spec: Spec) -> None:
    """Programs evaluate and save ``ddp.module``, also between the micro-batches of a step."""
    problem = Problem()
    model, wrapper = problem.model, nn.DataParallel(problem.model)
    opt = spec.make(model.parameters()).attach(wrapper)
    before, mean = problem.weights(), model(problem.x).detach()
    wrapper(problem.x).square().mean().backward()
    assert opt.holds_sample
    assert same([*model.state_dict().values()], before)
    wrapper(problem.x).square().mean().backward()
    model.eval()
    assert torch.equal(model(problem.x), mean)
    model.train()
    wrapper(problem.x)
    assert same(list(copy.deepcopy(model).parameters()), before)
    opt.detach()
    hooks = (model._forward_pre_hooks, model._state_dict_pre_hooks, model._load_state_dict_pre_hooks)
    assert not any(hooks)


@BACKENDS
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.name in ("Vadam", "EVON")], ids=str)
def test_a_model_traced_in_a_sample_is_traced_at_its_mean(spec: Spec, training: bool, backend: str) -> None:
    """The graph has the operations of the network alone, not those that restore the mean."""
    problem = Problem(torch.float32)
    opt = spec.make_for(problem.model, backend=backend).attach(problem.model)
    before = problem.weights()
    problem.loss()
    problem.model.train(training)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        traced = torch.jit.trace(problem.model, (problem.x,))
    assert same(problem.weights(), before)
    assert not opt.holds_sample
    assert "copy_" not in str(traced.inlined_graph)
    problem.model.eval()
    assert torch.equal(traced(problem.x), problem.model(problem.x))


@BACKENDS
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.name in ("Vadam", "EVON")], ids=str)
def test_a_model_exported_in_a_sample_is_exported_at_its_mean(spec: Spec, training: bool, backend: str) -> None:
    """torch.export runs the forward pass on fake tensors: to them the mean was restored, and the weights kept the sample."""
    problem = Problem(torch.float32)
    opt = spec.make_for(problem.model, backend=backend).attach(problem.model)
    before = problem.weights()
    problem.loss()
    problem.model.train(training)
    exported = torch.export.export(problem.model, (problem.x,), strict=False)
    assert same(problem.weights(), before)
    assert not opt.holds_sample
    problem.model.eval()
    assert torch.equal(exported.module()(problem.x), problem.model(problem.x))
    problem.model.train()
    problem.step(opt, spec, "attach")
    opt.eval()
    assert not same(problem.weights(), before)


@LOOPS
@BACKENDS
def test_a_sample_of_weights_that_were_replaced_does_not_come_back(spec: Spec, backend: str) -> None:
    """A run that diverged goes on from weights that are loaded between a forward pass and the next."""
    model, x = nn.Linear(3, 2), torch.ones(5, 3)
    opt = spec.make(model.parameters(), backend=backend).attach(model)
    good = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        model.weight.fill_(1e3)
    model(x)
    assert opt.holds_sample
    model.load_state_dict(good)
    model(x)
    assert opt.holds_sample
    assert bool((model.weight < 500).all()), "the sample is one of the weights that were loaded"
    opt.eval()
    assert same([*model.parameters()], [*good.values()])


@BACKENDS
@pytest.mark.parametrize("way", ["context", "closure"])
def test_an_attached_model_is_neither_saved_nor_loaded_inside_a_sample(way: str, backend: str) -> None:
    model, x = nn.Linear(3, 2), torch.ones(5, 3)
    opt = vadam.Vadam(model.parameters(), lr=0.1, num_data=10, backend=backend).attach(model)
    mean = {name: value.clone() for name, value in model.state_dict().items()}

    def inside(call: Callable[[], object]) -> None:
        if way == "context":
            with opt.sampled_params():
                call()
        else:
            opt.step(lambda: (model(x).sum().backward(), call()))

    for name, call in (("state_dict", model.state_dict), ("load_state_dict", lambda: model.load_state_dict(mean))):
        with pytest.raises(RuntimeError, match=rf"model\.{name}\(\) inside a sample"):
            inside(call)
        assert same([*model.parameters()], [*mean.values()])


@pytest.mark.parametrize("spec", [spec for spec in SPECS if "attach" in spec.ways and not spec.needs_attach], ids=str)
@BACKENDS
@pytest.mark.parametrize("samples", [1, 2])
def test_a_penalty_on_gradients_is_part_of_its_sample(spec: Spec, backend: str, samples: int) -> None:
    """A backward pass that takes gradients of the input, for a penalty, does not end the sample."""
    results = []
    for way in ("context", "attach"):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
        opt = spec.make(model.parameters(), backend=backend, samples=samples)
        if way == "attach":
            opt.attach(model)
        for _ in range(2):
            opt.zero_grad()
            for _ in range(samples):
                with opt.sampled_params() if way == "context" else nullcontext():
                    x = torch.ones(5, 3, requires_grad=True)
                    (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
                    (slope.norm(dim=1) - 1).square().mean().backward()
            opt.step()
        results.append([p.detach().clone() for p in model.parameters()])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("spec", SPECS, ids=str)
@BACKENDS
def test_a_model_that_changes_its_dtype_between_steps(spec: Spec, backend: str) -> None:
    """Training goes on as that of a model of the new dtype would from a checkpoint."""
    problem, finals = Problem(torch.float32), []
    opt = spec.make_for(problem.model, backend=backend, generator=torch.Generator())
    for _ in range(3):
        problem.step(opt, spec, spec.ways[0])
    saved = copy.deepcopy((problem.model.state_dict(), opt.state_dict()))
    problem.model.double()
    problem.x, problem.y = problem.x.double(), problem.y.double()
    resumed = Problem(torch.float64)
    resumed.x, resumed.y = problem.x, problem.y
    other = spec.make_for(resumed.model, backend=backend, generator=torch.Generator())
    resumed.model.load_state_dict(saved[0])
    other.load_state_dict(saved[1])
    for run, optimizer in ((problem, opt), (resumed, other)):
        optimizer.generator.manual_seed(7)
        for _ in range(3):
            run.step(optimizer, spec, spec.ways[0])
        finals.append(run.weights())
    torch.testing.assert_close(*finals, rtol=1e-4, atol=1e-5)


@LOOPS
@BACKENDS
@pytest.mark.parametrize("name", ["lr", "betas", "beta", "tau", "momentum"])
def test_an_argument_may_be_a_tensor_of_one_number(spec: Spec, backend: str, name: str) -> None:
    finals = []
    for kind in (float, lambda x: torch.tensor(x, dtype=torch.float64)):
        problem = Problem(torch.float64)
        opt = spec.make_for(problem.model, backend=backend, generator=torch.Generator().manual_seed(0))
        for group in opt.param_groups:
            if name in group:
                value = group[name]
                group[name] = tuple(map(kind, value)) if isinstance(value, tuple) else kind(value)
        for _ in range(3):
            problem.step(opt, spec, spec.ways[0])
        finals.append(problem.weights())
    torch.testing.assert_close(*finals)


@BACKENDS
@pytest.mark.parametrize("name", ["EVON", "VON", "IVON", "BBVI", "Vadam"])
def test_a_group_that_became_deterministic_resumes(name: str, backend: str) -> None:
    """State of a sampled matrix, such as the axes of EVON, may stay behind."""
    spec, problem = BY_NAME[name], Problem()
    params = [*problem.model.parameters()]
    opt = spec.make([{"params": params[:2]}, {"params": params[2:]}], backend=backend)
    problem.step(opt, spec, "context")
    opt.param_groups[1]["deterministic"] = True
    problem.step(opt, spec, "context")
    other = spec.make([{"params": params[:2]}, {"params": params[2:]}], backend=backend)
    other.load_state_dict(opt.state_dict())
    assert same(snapshot(other), snapshot(opt))
