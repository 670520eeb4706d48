"""Scores against vadam's metrics, and a posterior that is known against what it must predict."""

import math

import numpy as np
import pytest
import torch

from vadam.ensemble import MLP, Member, Method, noise, train
from vadam.ensemble.scores import scores
from vadam.ensemble.stack import Stack


def trained(likelihood="gaussian", outputs=1, method=None, **setting):
    rng = np.random.default_rng(3)
    x = 5 + 2 * rng.normal(size=(60, 2))
    y = 10 + 3 * (x[:, 0] - x[:, 1]) + rng.normal(size=60)
    y = {"gaussian": y, "bernoulli": (y > 10) * 1.0, "categorical": np.digitize(y, [5, 15])}[likelihood]
    method = method or Method("vadam", lr=0.05, betas=(0.9, 0.99), samples=2)
    rows = {"train": np.arange(40), "noise_precision": 8.0, "dropout": 0.1 if method.drops_out else 0.0}
    members = [Member(x, y, test=np.arange(40, 60 - e), seed=e, **rows) for e in range(2)]
    training = train(members, MLP(2, 6, outputs), method, likelihood=likelihood, epochs=60, batch_size=8, **setting)
    return training, members


def outputs_of(training, members, e, samples):
    """Return the test outputs of member e in original units, for the samples that the scores use."""
    stack = training.stack[e]
    key = noise.keys(stack.seeds, [0], noise.Stream.EVALUATION)[0]
    x = stack.scaling.x(torch.as_tensor(members[e].x[members[e].test])[None])
    f = stack.standardised_outputs(x.float(), samples, key)[0].double()
    return f * stack.scaling.y_std[0] + stack.scaling.y_mean[0]


@pytest.mark.parametrize(
    "method",
    [None, Method("adam", lr=0.05), Method("adam", lr=0.05, drops_out=True)],
    ids=["Vadam", "MAP", "MCDropout"],
)
def test_regression(method):
    training, members = trained(method=method)
    for e, member in enumerate(members):
        f = outputs_of(training, members, e, 100).squeeze(-1)
        y = torch.as_tensor(member.y[member.test])
        sd = 8**-0.5 * training.stack.scaling.y_std[e]
        log_p = torch.distributions.Normal(f, sd).log_prob(y)
        expected = {
            "rmse": (f.mean(0) - y).square().mean().sqrt(),
            "log_likelihood": (log_p.logsumexp(0) - math.log(100)).mean(),
            "joint_log_likelihood": (log_p.sum(1).logsumexp(0) - math.log(100)) / len(y),
        }
        assert set(training.scores) == set(expected)
        for name, value in expected.items():
            assert training.scores[name][e].item() == pytest.approx(value.item(), rel=1e-6)


@pytest.mark.parametrize(("likelihood", "outputs"), [("bernoulli", 1), ("categorical", 3)])
def test_classes(likelihood, outputs):
    training, members = trained(likelihood, outputs)
    for e, member in enumerate(members):
        f = outputs_of(training, members, e, 100)
        y = torch.as_tensor(member.y[member.test])
        if likelihood == "bernoulli":
            distribution = torch.distributions.Bernoulli(logits=f.squeeze(-1))
            label = distribution.probs.mean(0) > 0.5
        else:
            distribution = torch.distributions.Categorical(logits=f)
            label = distribution.probs.mean(0).argmax(-1)
        log_p = distribution.log_prob(y)
        assert training.scores["accuracy"][e].item() == pytest.approx((label == y).double().mean().item())
        pointwise = (log_p.logsumexp(0) - math.log(100)).mean()
        assert training.scores["log_likelihood"][e].item() == pytest.approx(pointwise.item(), rel=1e-6)
        assert training.scores["accuracy"][e] > 0.6


def test_epochs_have_their_own_samples():
    training, members = trained()
    x, y = (torch.as_tensor(v[members[0].test]) for v in (members[0].x, members[0].y))
    scaling = training.stack[0].scaling
    test = [(scaling.x(x[None])[0].float(), scaling.y(y[:, None]).float())]
    first, again, other = (scores(training.stack[0], test, 50, epoch=k)["rmse"].item() for k in (1, 1, 2))
    assert first == again != other


def test_outputs_follow_the_posterior():
    """Without hidden layers f is Gaussian: its mean and variance are known. 4,000 samples, five standard errors."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 2))
    y = x @ [1.0, 2.0] + 5
    stack = train([Member(x, y, noise_precision=10.0)], MLP(2, 1), Method("vadam", lr=0.05, samples=4), epochs=30).stack
    post, S = stack.posterior(0), 4000
    f = stack.outputs(x[:5], samples=S)[0, :, :, 0].double()
    X = (torch.as_tensor(x[:5]) - stack.scaling.x_mean[0]) / stack.scaling.x_std[0]
    scale = stack.scaling.y_std[0]
    mean = (X @ post.mean["0.weight"][0].double() + post.mean["0.bias"].double()) * scale + stack.scaling.y_mean[0]
    variance = (X**2 @ post.variance["0.weight"][0].double() + post.variance["0.bias"].double()) * scale**2
    assert ((f.mean(0) - mean).abs() < 5 * (variance / S).sqrt()).all()
    assert ((f.var(0) / variance - 1).abs() < 5 * (2 / S) ** 0.5).all()
    assert torch.equal(stack.outputs(x[:5], samples=10), stack.outputs(x[:5], samples=10))


def test_posterior_of_points_and_of_no_prior():
    point = trained(method=Method("adam", lr=0.05))[0].stack.posterior(1)
    assert point.mean == {}
    assert set(point.point) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert (
        trained(method=Method("vadagrad", samples=2, init_precision=1e4))[0].stack.posterior(0).prior_precision is None
    )
    assert float(trained()[0].stack.posterior(0).prior_precision["0.bias"]) == 1.0


def test_dropout_masks_differ_between_examples_where_targets_are_scored():
    """Masks are drawn for each example apart: two equal rows get different densities in the same sample."""
    stack = trained(method=Method("adam", lr=0.05, drops_out=True))[0].stack
    log_p = stack.log_prob(np.array([[5.0, 5.0], [5.0, 5.0]]), np.zeros(2), samples=50)[0]
    assert not torch.equal(log_p[:, 0], log_p[:, 1])


def test_dropout_predictions_of_equal_rows_are_equal():
    """A sample is one function of the input, whatever the other rows are."""
    stack = trained(method=Method("adam", lr=0.05, drops_out=True))[0].stack
    f = stack.outputs(np.array([[5.0, 5.0], [1.0, 2.0], [5.0, 5.0]]), samples=50)[0, :, :, 0]
    assert torch.equal(f[:, 0], f[:, 2])
    assert torch.equal(f[:, 1:2], stack.outputs(np.array([[1.0, 2.0]]), samples=50)[0, :, :, 0])
    assert f[:, 0].std() > 0


def test_a_cold_posterior_of_a_stack_knows_its_prior():
    """KL to N(½, 1/3), whatever the temperature of the posterior."""
    x = np.random.default_rng(0).normal(size=(30, 2))
    members = [Member(x, x[:, 0], prior_precision=3.0, temperature=T, seed=0) for T in (1.0, 0.25)]
    stack, *apart = (
        train(some, MLP(2, 4, 1), Method("vadam", lr=0.01, prior=0.5), epochs=2).stack
        for some in (members, members[:1], members[1:])
    )
    for same in (stack, Stack.join([stack[0], stack[1]]), Stack.join(apart)):
        for e, T in enumerate((1.0, 0.25)):
            post = same.posterior(e)
            assert {float(lam) for lam in post.prior_precision.values()} == {3.0}
            assert post.temperature == ({} if T == 1 else dict.fromkeys(post.mean, T))
            mean, precision = post.flat()
            prior = torch.distributions.Normal(0.5, 3.0**-0.5)
            kl = torch.distributions.kl_divergence(torch.distributions.Normal(mean, precision.rsqrt()), prior).sum()
            torch.testing.assert_close(post.kl(), kl)
