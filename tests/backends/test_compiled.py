"""torch.compile beyond the lock step: double precision, pairs, and machines that cannot compile."""

import subprocess
import sys

import pytest
import torch

from specs import BY_NAME, Problem, Spec, same, snapshot


def trained(spec: Spec, backend: str, dtype: torch.dtype = torch.float64, **options: object) -> list[torch.Tensor]:
    problem = Problem(dtype)
    opt = spec.make_for(problem.model, generator=torch.Generator().manual_seed(1), backend=backend, **options)
    for _ in range(3):
        problem.step(opt, spec)
    return problem.weights() + snapshot(opt)


@pytest.mark.parametrize(
    "name",
    ["Vadam"]
    + [
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("Vprop", "VOGN", "VOGN-momentum", "VadaGrad", "BBVI", "IVON")
    ],
)
def test_double_precision(name: str) -> None:
    ours, plain = (trained(BY_NAME[name], backend) for backend in ("compiled", "plain"))
    for x, y in zip(ours, plain, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-12)


def test_single_precision_with_samples_and_pairs() -> None:
    options = {"dtype": torch.float32, "samples": 4, "antithetic": True}
    ours, plain = (trained(BY_NAME["Vadam"], backend, **options) for backend in ("compiled", "plain"))
    for x, y in zip(ours, plain, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-6)


_NO_COMPILER = """
import warnings
import torch
import vadam

def broken(function, **options):
    def run(*arguments):
        raise RuntimeError("no C++ compiler")
    return run

def trained(backend):
    w = torch.nn.Parameter(torch.ones(5))
    opt = vadam.Vadam([w], num_data=10, backend=backend, generator=torch.Generator().manual_seed(0))
    for _ in range(3):
        with opt.sampled_params():
            w.grad = w.detach().clone()
        opt.step()
    return w.detach()

torch.compile = broken
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    ours = trained("compiled")
assert torch.equal(ours, trained("plain"))
print(*{str(warning.message) for warning in caught}, sep="\\n")
"""


def test_goes_on_where_nothing_can_be_compiled() -> None:
    result = subprocess.run([sys.executable, "-c", _NO_COMPILER], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    expected = (
        "the optimizer's arithmetic cannot be compiled here, so its steps are slower (RuntimeError: no C++ compiler)"
    )
    assert result.stdout.splitlines() == [expected]


def test_large_tensors_and_many_small_ones() -> None:
    """One function serves every size: chunks, their remainder, a bucket of many."""

    def run(backend: str) -> list[torch.Tensor]:
        weights = [torch.nn.Parameter(torch.linspace(-1, 1, n)) for n in (1, 70_001, 300, 2, 150_000)]
        opt = BY_NAME["Vadam"].make(weights, generator=torch.Generator().manual_seed(0), backend=backend)
        for _ in range(2):
            with opt.sampled_params():
                for w in weights:
                    w.grad = w.detach() - 1
            opt.step()
        return [w.detach() for w in weights]

    for x, y in zip(run("compiled"), run("plain"), strict=True):
        torch.testing.assert_close(x, y, rtol=2e-4, atol=2e-5)


@pytest.mark.skipif(not hasattr(torch.compiler, "set_stance"), reason="torch tells of compilations from 2.6 on")
def test_annealing_compiles_nothing_again() -> None:
    """Rates and temperatures are arguments of the code, not constants in it."""
    problem, spec = Problem(torch.float32), BY_NAME["Vadam"]
    opt = spec.make_for(problem.model, backend="compiled")
    for _ in range(2):
        problem.step(opt, spec)
    with torch.compiler.set_stance("fail_on_recompile"):
        for k in range(3):
            before = problem.weights()
            for group in opt.param_groups:
                group["lr"], group["tau"] = 0.01 / (1 + k), 0.9**k
            problem.step(opt, spec)  # raises if something is compiled
            assert not same(problem.weights(), before)
