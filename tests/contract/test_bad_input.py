"""Wrong arguments and wrong use: a clear error each time, and neither weights nor state changed."""

import pytest
import torch
from torch import nn

import vadam
from specs import SPECS, Problem, Spec, same, snapshot

BAD = [pytest.param(spec, kwargs, message, id=f"{spec}-{kwargs}") for spec in SPECS for kwargs, message in spec.bad]


@pytest.mark.parametrize(("spec", "kwargs", "message"), BAD)
def test_wrong_arguments(spec: Spec, kwargs: dict, message: str) -> None:
    base = {k: v for k, v in spec.kwargs.items() if k != "init_precision" or not spec.has_prior}
    with pytest.raises(ValueError, match=message):
        spec.build(Problem().model.parameters(), **{**base, **kwargs})


@pytest.mark.parametrize("spec", [s for s in SPECS if s.has_prior], ids=str)
def test_num_data_cannot_be_forgotten(spec: Spec) -> None:
    with pytest.raises(TypeError, match="num_data"):
        spec.build(Problem().model.parameters(), lr=0.1)


@pytest.mark.parametrize("spec", [s for s in SPECS if "context" in s.ways], ids=str)
def test_step_without_a_gradient(spec: Spec) -> None:
    problem = Problem()
    opt = spec.make_for(problem.model)
    weights = problem.weights()
    with pytest.raises(RuntimeError, match="without a gradient"):
        opt.step()
    with pytest.raises(RuntimeError, match=r"must call backward\(\)"):
        opt.step(lambda: problem.loss())
    assert same(problem.weights(), weights)


@pytest.mark.parametrize("spec", [s for s in SPECS if not s.backward and s.differentiable], ids=str)
def test_closures_that_call_backward_by_mistake(spec: Spec) -> None:
    problem = Problem()
    opt = spec.make(problem.model.parameters())
    weights = problem.weights()

    def closure():
        loss = problem.loss()
        loss.backward()
        return loss.item()

    with pytest.raises(TypeError, match=r"does not call backward\(\)"):
        opt.step(closure)
    assert same(problem.weights(), weights)


@pytest.mark.parametrize("spec", [s for s in SPECS if "context" in s.ways], ids=str)
def test_nested_samples(spec: Spec) -> None:
    problem = Problem()
    opt = spec.make_for(problem.model)
    problem.step(opt, spec)
    weights, state = problem.weights(), snapshot(opt)
    with pytest.raises(RuntimeError, match="cannot be nested"), opt.sampled_params(), opt.sampled_params():
        pass
    assert same(problem.weights(), weights)
    with pytest.raises(RuntimeError, match="leave the block first"), opt.sampled_params():  # noqa: PT012
        problem.loss().backward()
        opt.step()
    assert same(problem.weights(), weights)
    with pytest.raises(RuntimeError, match="inside a sample"), opt.sampled_params():
        opt.state_dict()
    opt.attach(problem.model)
    problem.loss()
    with pytest.raises(RuntimeError, match=r"call opt.step\(\) or opt.eval\(\) first"), opt.sampled_params():
        pass
    opt.eval()
    assert same(problem.weights(), weights)
    assert same(snapshot(opt), state)


def test_wrong_parameters() -> None:
    with pytest.raises(ValueError, match="empty parameter list"):
        vadam.Vadam([], num_data=1)
    with pytest.raises(ValueError, match="complex64 cannot be given a Gaussian posterior"):
        vadam.Vadam([nn.Parameter(torch.zeros(2, dtype=torch.complex64))], num_data=1)
    opt = vadam.Vadam([nn.Parameter(torch.zeros(2))], num_data=1)
    with pytest.raises(TypeError, match=r"takes the nn.Module"):
        opt.attach("model")
    with pytest.raises(ValueError, match="none of the model's parameters"):
        opt.attach(nn.Linear(1, 1))


def test_sparse_gradients_are_refused_by_name() -> None:
    embedding = nn.Embedding(4, 2, sparse=True)
    opt = vadam.Vadam(embedding.named_parameters(), num_data=10)

    def closure():
        loss = embedding(torch.tensor([1, 2])).square().mean()
        loss.backward()
        return loss

    with pytest.raises(RuntimeError, match="sparse=False"):
        opt.step(closure)
