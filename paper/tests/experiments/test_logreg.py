"""The stacked logistic-regression engine against autograd, a plain loop, and ports written from the equations."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, kl_divergence
from torch.nn.functional import binary_cross_entropy_with_logits

from vadam.rules import vadam
from vadam_paper.experiments import context as context_module
from vadam_paper.experiments.config import Config
from vadam_paper.experiments.logreg import engine, matlab_toy_vogn, matlab_vadam, matlab_vogn, methods, quality
from vadam_paper.experiments.logreg.problem import BIAS_PRECISION, Problem, with_bias, without_bias
from vadam_paper.experiments.logreg.rates import decayed

E, N, D, M, STEPS = 3, 25, 4, 5, 21
CONFIG = Config(experiment="x", preset="smoke", protocol="text")


@pytest.fixture
def problem() -> Problem:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, D)), (rng.random(40) < 0.5).astype(float)
    rows = np.stack([rng.permutation(40) for _ in range(E)])
    return without_bias(X, y, rows[:, :N], rows[:, N:], 2.0)


def context(folder: Path, key: str = "k") -> context_module.CellContext:
    return context_module.CellContext(CONFIG, key, folder)


def last(problem: Problem, method: engine.Method, folder: Path, **options: object) -> engine.Snapshot:
    start = torch.zeros(E, problem.dimension, dtype=torch.float64)
    options = {"compiled": False, "seed": 1, "key": "k"} | options
    return engine.train(problem, method, start, context(folder), **options)[-1]  # type: ignore[arg-type]


@pytest.mark.parametrize("curvature", ["magnitude", "ggn", "hessian"])
def test_gradient_and_curvature_are_autograds(curvature: str) -> None:
    x = torch.randn(E, M, D, dtype=torch.float64)
    y = (torch.rand(E, M) < 0.5).double()
    theta = torch.randn(E, D, dtype=torch.float64)
    g, h = engine.gradient_and_curvature(x, y, theta, curvature)
    for e in range(E):

        def loss(w: Tensor, rows: slice = slice(None), e: int = e) -> Tensor:
            return binary_cross_entropy_with_logits(x[e, rows] @ w, y[e, rows])

        single = torch.stack([torch.func.grad(loss)(theta[e], slice(i, i + 1)) for i in range(M)])
        expected = {
            "magnitude": torch.func.grad(loss)(theta[e]) ** 2,
            "ggn": (single**2).mean(0),
            "hessian": torch.func.jacrev(torch.func.grad(loss))(theta[e]).diagonal(),
        }
        torch.testing.assert_close(g[e], torch.func.grad(loss)(theta[e]), rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(h[e], expected[curvature], rtol=1e-12, atol=1e-14)


def test_unknown_curvature_is_named() -> None:
    with pytest.raises(ValueError, match="magnitude, ggn or hessian, got"):
        engine.gradient_and_curvature(torch.zeros(1, 1, 1), torch.zeros(1, 1), torch.zeros(1, 1), "exact")


def test_the_stack_is_the_loop_over_members(problem: Problem, tmp_path: Path) -> None:
    """A loop over members with autograd and the same random numbers gives the same result."""
    method = methods.text_vadam(methods.Rates(), M, STEPS)
    stacked = last(problem, method, tmp_path)
    draws = list(engine._chunks(problem, method, 0, 1, "k"))
    assert [done for done, _ in draws] == [STEPS]
    x, y, eps, _ = draws[0][1]
    for e in range(E):
        mu, m, s = (torch.zeros(D, dtype=torch.float64) for _ in range(3))
        for k in range(STEPS):
            lam, t = 2.0, k + 1
            theta = (mu + eps[k, e] / (N * s + lam).sqrt()).requires_grad_()
            (g,) = torch.autograd.grad(binary_cross_entropy_with_logits(x[k, e] @ theta, y[k, e]), theta)
            g1, g2 = 0.9, 1 - 0.01 / (1 + t**0.55)
            m = g1 * m + (1 - g1) * (g + lam * mu / N)
            s = g2 * s + (1 - g2) * g**2
            mu = mu - 0.01 / (1 + t**0.55) * (m / (1 - g1**t)) / ((s / (1 - g2**t)).sqrt() + lam / N)
        torch.testing.assert_close(stacked.mean[e], mu, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(stacked.precision[e], N * s + 2.0, rtol=1e-10, atol=1e-12)


def test_minibatches_come_from_the_members_own_rows(problem: Problem) -> None:
    method = methods.text_vadam(methods.Rates(), M, STEPS)
    (_, (x, y, _, _)), *_ = engine._chunks(problem, method, 0, 1, "k")
    for e in range(E):
        own = {tuple(row) for row in problem.training_set(e)[0].tolist()}
        assert {tuple(row) for row in x[:, e].reshape(-1, D).tolist()} <= own
    assert set(y.unique().tolist()) <= {0.0, 1.0}


def test_a_stopped_run_goes_on_bit_for_bit(problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_module, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    monkeypatch.setattr(engine, "MAX_CHUNK", 8)
    method = methods.authors_vadam(methods.Rates(), M, STEPS)
    start = torch.zeros(E, D, dtype=torch.float64)
    options = {"seed": 1, "key": "k", "compiled": False, "keep_at": (5, 12)}
    whole = engine.train(problem, method, start, context(tmp_path / "whole"), **options)
    stopped = context(tmp_path / "stopped")
    stopped.report = _raise_after(0.5)
    with pytest.raises(KeyboardInterrupt):
        engine.train(problem, method, start, stopped, **options)
    resumed = engine.train(problem, method, start, context(tmp_path / "stopped"), **options)
    assert [snapshot.step for snapshot in whole] == [8, 16, STEPS]
    for a, b in zip(whole, resumed, strict=True):
        assert a.step == b.step
        assert torch.equal(a.mean, b.mean)
        assert torch.equal(a.precision, b.precision)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch's own, when its compiler is imported
@pytest.mark.slow
def test_compiled_steps_are_the_eager_steps(problem: Problem, tmp_path: Path) -> None:
    method = methods.authors_vadam(methods.Rates(), M, STEPS)
    eager = last(problem, method, tmp_path / "eager")
    compiled = last(problem, method, tmp_path / "compiled", compiled=True)
    torch.testing.assert_close(compiled.mean, eager.mean, rtol=1e-11, atol=1e-13)
    torch.testing.assert_close(compiled.precision, eager.precision, rtol=1e-11, atol=1e-13)


RATES = {"alpha": 0.03, "beta": 0.02}


@pytest.mark.parametrize(
    "rule", [matlab_vadam, matlab_vogn, matlab_toy_vogn], ids=lambda rule: rule.__name__.split(".")[-1]
)
def test_matlab_rules_in_plain_numbers(rule: engine.Rule) -> None:
    """The equations of the docstrings, evaluated with Python floats for one weight."""
    rng = np.random.default_rng(0)
    lam, n = 0.7, 11.0
    state = rule.init(torch.tensor([0.3], dtype=torch.float64), init_precision=1.0, N=n, lam=lam)
    mu, m, S, P = 0.3, 0.0, 1.0, 1.0
    for t in range(1, 8):
        g, h = rng.normal(), rng.random()
        assert rule.precision(state, N=n, lam=lam).item() == pytest.approx(P, rel=1e-12)
        state = rule.update(
            state, torch.tensor([g], dtype=torch.float64), torch.tensor([h], dtype=torch.float64), N=n, lam=lam, **RATES
        )
        m = 0.9 * m + 0.1 * (n * g + lam * mu)
        m_hat = m / (1 - 0.9**t)
        S = 0.98 * S + 0.02 * n * h
        S_hat = S / (1 - 0.98**t)
        if rule is matlab_vadam:
            P, mu = S_hat + lam, mu - 0.03 * m_hat / (S_hat**0.5 + lam)
        elif rule is matlab_toy_vogn:
            P = S_hat + lam
            mu -= 0.03 * m_hat / P
        else:
            P = 0.98 * P + 0.02 * (n * h + lam)
            mu -= 0.03 * m_hat / P
        assert state.mu.item() == pytest.approx(mu, rel=1e-12)


def test_matlab_vadam_is_fig_1_with_longer_steps() -> None:
    """Without prior and start, with a constant β, its step is √N times that of Fig. 1 (lines 5 to 8)."""
    n, beta = 16.0, 0.1
    theirs = matlab_vadam.init(torch.zeros(2, dtype=torch.float64), init_precision=0.0, N=n, lam=0.0)
    ours = vadam.init(torch.zeros(2, dtype=torch.float64), init_precision=0.0, N=n, lam=0.0)
    for g in torch.randn(9, 2, dtype=torch.float64):
        theirs = matlab_vadam.update(theirs, g, g * g, alpha=0.01, beta=beta, N=n, lam=0.0)
        ours = vadam.update(ours, g, g * g, alpha=0.01 * n**0.5, gamma1=0.9, gamma2=1 - beta, N=n, lam=0.0)
        torch.testing.assert_close(theirs.mu, ours.mu, rtol=1e-12, atol=1e-14)


def test_decay_is_that_of_the_paper() -> None:
    t = torch.tensor([1.0, 10.0, 1000.0], dtype=torch.float64)
    assert decayed(0.1, t).tolist() == pytest.approx([0.1 / (1 + x**0.55) for x in (1, 10, 1000)])


def test_symmetric_kl_is_torchs() -> None:
    a, b = torch.randn(5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    p, q = torch.rand(5, dtype=torch.float64) + 0.1, torch.rand(5, dtype=torch.float64) + 0.1
    left, right = Normal(a, p.rsqrt()), Normal(b, q.rsqrt())
    expected = (kl_divergence(left, right) + kl_divergence(right, left)).sum() / 2
    torch.testing.assert_close(quality.symmetric_kl(a, p, b, q), expected, rtol=1e-12, atol=0)


def test_a_bias_is_nearly_free_and_its_normaliser_not_counted(problem: Problem) -> None:
    biased = with_bias(problem.pool.numpy(), problem.labels.numpy(), problem.train.numpy(), problem.test.numpy(), 2.0)
    assert biased.pool[:, 0].eq(1).all()
    assert biased.prior_precision.tolist() == [BIAS_PRECISION, 2.0, 2.0, 2.0, 2.0]
    mean, precision = quality.mean_field_optimum(biased)
    with_normaliser = Problem(
        biased.pool, biased.labels, biased.train, biased.test, biased.prior_precision, torch.ones(D + 1).double()
    )
    shift = np.subtract(
        quality.nelbo_per_datum(with_normaliser, mean, precision), quality.nelbo_per_datum(biased, mean, precision)
    )
    assert shift == pytest.approx([-0.5 * np.log(BIAS_PRECISION) / N] * E)


def test_von_finds_the_exact_mean_field_optimum(tmp_path: Path) -> None:
    """With the Hessian, full batches as minibatches would be, and rates that decay: within 0.05 nats on a small problem."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    y = (rng.random(60) < 1 / (1 + np.exp(-X @ [1.0, -2.0]))).astype(float)
    rows = np.tile(np.arange(60), (E, 1))
    small = without_bias(X, y, rows, rows, 1.0)

    def rates(t: Tensor) -> dict[str, Tensor]:
        return {"alpha": decayed(1.0, t), "beta": decayed(1.0, t)}

    method = engine.Method(matlab_vogn, "hessian", rates, 20, 1500, 1.0)
    q = last(small, method, tmp_path)
    kl = quality.symmetric_kl(q.mean, q.precision, *quality.mean_field_optimum(small))
    assert kl.max() < 0.05  # the iterates scatter by about 0.01 nats at the last rates


def _raise_after(part: float):
    def report(fraction: float) -> None:
        if fraction >= part:
            raise KeyboardInterrupt

    return report


def test_epochs_draw_every_row_at_most_once() -> None:
    """Shuffled epochs of 11 rows in minibatches of 4 have two steps, with 8 different rows for each member."""
    rows = engine._epochs(11, 5, 3, 4, torch.Generator().manual_seed(0))
    assert rows.shape == (5, 3, 4)
    for first in (0, 2):
        for member in range(3):
            assert len(set(rows[first : first + 2, member].flatten().tolist())) == 8


def test_batch_size_divides_the_curvature_by_theorem_1s_factor() -> None:
    """With N = 341 and M = 8, s/w with w = (1/8)(333/340); the steps do not depend on it."""
    method = methods.vadam_with_batch_size(8, 10, 341)
    assert method.w == pytest.approx(333 / (8 * 340))
    state = method.rule.init(torch.zeros(2, dtype=torch.float64), init_precision=1.0, N=341.0, lam=1.0)
    state = state._replace(s=torch.tensor([0.1, 0.2], dtype=torch.float64))
    expected = torch.tensor([0.1, 0.2], dtype=torch.float64) * 341 * 8 * 340 / 333 + 1
    torch.testing.assert_close(method.precision(state, 341.0, torch.ones(2, dtype=torch.float64)), expected)
