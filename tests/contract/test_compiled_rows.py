"""Every row keeps its main promises when it is compiled, in one short run each: compiling a rule takes a second or more.

The rows in ``conftest.COMPILED_ROWS`` also run most promises one by one. The run is in float32, as ``tests/backends/test_lockstep.py``, so
that both share what was compiled. EVON's rule sees whole tensors: it is not compiled, and must work all the same.
"""

from __future__ import annotations

import copy

import pytest
import torch

import vadam
from specs import SPECS, Problem, Spec, same, snapshot


def made(spec: Spec, backend: str) -> tuple[Problem, vadam.VariationalOptimizer]:
    problem = Problem(torch.float32)
    return problem, spec.make_for(problem.model, backend=backend, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("backend", ["compiled"])
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_promises_of_a_compiled_row(spec: Spec, backend: str) -> None:
    """Each way trains in place and ends at the mean; failed steps leave no trace; the same seed and a resumed run agree."""
    problem, opt = made(spec, backend)
    twin, other = made(spec, backend)
    places = [p.data_ptr() for p in problem.model.parameters()]
    for way in spec.ways:
        before = problem.weights()
        for each, model in ((opt, problem), (other, twin)):
            if way == "attach":
                each.attach(model.model)
            model.step(each, spec, way)
        assert not opt.holds_sample
        assert not same(problem.weights(), before)
    assert [p.data_ptr() for p in problem.model.parameters()] == places
    assert same(problem.weights() + snapshot(opt), twin.weights() + snapshot(other))

    weights, state = problem.weights(), snapshot(opt)

    def failing() -> None:
        assert not same(problem.weights(), weights)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        opt.step(failing)
    targets, problem.y = problem.y, torch.full_like(problem.y, float("nan"))
    with pytest.raises(FloatingPointError, match="is not finite"):
        problem.step(opt, spec)
    problem.y = targets
    assert same(problem.weights() + snapshot(opt), weights + state)

    resumed, later = made(spec, backend)
    resumed.model.load_state_dict(problem.model.state_dict())
    later.load_state_dict(copy.deepcopy(opt.state_dict()))
    for each, model in ((opt, problem), (later, resumed)):
        model.step(each, spec)
    assert same(problem.weights() + snapshot(opt), resumed.weights() + snapshot(later))
    assert not same(problem.weights(), weights)
