"""The stack of networks of Fig. 3: its scores against the library's own."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from vadam import metrics
from vadam.ensemble import MLP, Method
from vadam.gaussian import MeanFieldGaussian
from vadam_paper.data import Split
from vadam_paper.experiments.australian.config import preset
from vadam_paper.experiments.australian.curve import Curve
from vadam_paper.experiments.australian.stack import Stack

CONFIG = replace(preset("smoke", "authors"), hidden=6)
METHOD = Method("vogn", lr=0.01, beta=0.9, samples=2)


@pytest.fixture
def stack() -> Stack:
    rng = np.random.default_rng(0)
    X, y = torch.tensor(rng.normal(size=(40, 3))).float(), torch.tensor(rng.random(40) < 0.5).float()
    split = Split(np.arange(25), np.arange(25, 40))
    stack = Stack(X, y, split, MLP(3, 6, 1), METHOD, 5, CONFIG)
    assert list(stack.train(0, 20)) == list(range(1, 21))
    return stack


def test_log_losses_are_the_librarys(stack: Stack) -> None:
    log_p = stack.trainer.stack.log_prob(*stack.test_rows, 7, draw=3)
    joint, pointwise = stack.test_log_losses(7, 3)
    for e in range(CONFIG.seeds):
        assert -joint[e].item() * math.log(2) == pytest.approx(metrics.joint_log_likelihood(log_p[e]).item(), rel=1e-9)
        assert -pointwise[e].item() * math.log(2) == pytest.approx(metrics.log_likelihood(log_p[e]).item(), rel=1e-9)


def test_nelbo_has_the_posteriors_kl(stack: Stack) -> None:
    posteriors = stack.trainer.stack
    loss = -posteriors.log_prob(*stack.train_rows, 100).mean((1, 2))
    mean, precision = ({n: v.flatten(1) for n, v in x.items()} for x in (posteriors.mean, posteriors.precision))
    for e in range(CONFIG.seeds):
        mu, tau = (torch.cat([v[e] for v in x.values()]) for x in (mean, precision))
        q = MeanFieldGaussian({"w": mu}, {"w": tau}, prior_precision={"w": 1.0})
        expected = loss[e].item() + q.kl().item() / 25
        assert stack.nelbo_per_datum()[e].item() == pytest.approx(expected, rel=1e-5)


def test_a_member_does_not_depend_on_the_others(stack: Stack) -> None:
    X = torch.cat([stack.train_rows[0], stack.test_rows[0]])
    y = torch.cat([stack.train_rows[1], stack.test_rows[1]])
    split = Split(np.arange(25), np.arange(25, 40))
    alone = Stack(X, y, split, MLP(3, 6, 1), METHOD, 5, replace(CONFIG, seeds=1))
    assert len(list(alone.train(0, 20))) == 20
    torch.testing.assert_close(alone.trainer.state.mu[0], stack.trainer.state.mu[0], rtol=1e-5, atol=1e-6)


def test_q_starts_at_the_prior() -> None:
    X, y = torch.randn(10, 3), torch.ones(10)
    split = Split(np.arange(5), np.arange(5, 10))
    stack = Stack(X, y, split, MLP(3, 6, 1), Method("vadam", lr=0.001, init_precision="prior"), 5, CONFIG)
    precision = stack.trainer.stack.precision
    assert precision is not None
    assert {value for p in precision.values() for value in p.flatten().tolist()} == {1.0}


def test_curve_numbers() -> None:
    curve = Curve(every=100)
    for step in range(100, 5001, 100):
        curve.add(torch.tensor([1.0, 2.0]) if step < 1000 else torch.tensor([0.6, 0.7]), torch.tensor([0.5, 0.5]))
    joint = curve.summary()["joint"]
    assert joint["end"].tolist() == pytest.approx([0.6, 0.7])
    assert joint["at_500"].tolist() == pytest.approx([1.0, 2.0])
    assert joint["early"].tolist() == pytest.approx([0.96, 1.87])
    assert joint["steps_to_target"] == [1000, None]
    shown = curve.summary()["curve"]
    assert len(shown["step"]) == len(shown["mean"]) == 50
    assert shown["mean"][0].item() == pytest.approx(1.5)
