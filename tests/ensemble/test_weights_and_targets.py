"""Rows that count more than others, several targets, and noise that depends on the input."""

import numpy as np
import pytest
import torch

from vadam.ensemble import MLP, Member, Method, train
from vadam.ensemble.trainer import Settings, Trainer


def rows(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("name", ["vadam", "vogn"])
def test_a_row_of_weight_two_is_a_row_that_stands_there_twice(name):
    """In one minibatch of all rows, and with the same number of data, nothing else differs."""
    X, y = rows(9)
    twice = np.array([0, 0, 1, 2, 3, 4, 5, 6, 7, 8])
    weight = np.array([2.0, *[1.0] * 8])
    setting = {"seed": 3, "num_data": 10, "prior_precision": 1.0, "noise_precision": 5.0}
    members = [Member(X, y, weight=weight, **setting), Member(X, y, train=twice, **setting)]
    training = train(
        members,
        MLP(3, 4, 1),
        Method(name, lr=0.05),
        epochs=20,
        batch_size=10,
        standardise=False,
        dtype=torch.float64,
        compiled=False,
    )
    for values in (training.stack.mean, training.stack.precision):
        for value in values.values():
            torch.testing.assert_close(value[0], value[1], rtol=1e-9, atol=1e-12)


def test_a_minibatch_takes_no_more_room_than_the_rows():
    """A ``batch_size`` far above the number of rows filled the memory with zeros, and the training did not end."""
    X, y = rows(9)
    members = [Member(X, y, seed=3), Member(X, y, train=np.arange(4), seed=3)]
    settings = [Settings(MLP(3, 4, 1), Method("vadam"), epochs=2, batch_size=size) for size in (9, 10**12)]
    exact, larger = (list(Trainer(members, setting).batches()) for setting in settings)
    assert larger[0].x.shape == (2, 9, 3)
    for one, other in zip(exact, larger, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    train(members, MLP(3, 4, 1), Method("vadam"), epochs=2, batch_size=10**12)


def test_weights_that_cannot_be_are_refused():
    X, y = rows(5)
    for weight in ([1.0] * 4, [-1.0] * 5, [np.nan] * 5):
        with pytest.raises(ValueError, match="weight of member 0 is not valid: give 5 numbers from 0"):
            train([Member(X, y, weight=weight)], MLP(3, 1), Method("vadam"), epochs=1)
    with pytest.raises(ValueError, match="have the weight 0"):
        train([Member(X, y, weight=[0.0] * 5)], MLP(3, 1), Method("vadam"), epochs=1)


def test_noise_that_grows_with_the_input_is_found():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 1))
    truth = np.exp(1.5 * X[:, 0])
    y = 100 + 10 * (X[:, 0] + truth * rng.normal(size=600))
    member = Member(X, y, prior_precision=1.0, temperature=0.1, seed=0)
    method = Method("vadam", lr=0.03, init_precision=1e4)
    stack = train([member], MLP(1, 20, 2), method, likelihood="input-noise", epochs=120, compiled=False).stack
    where = np.array([[-0.8], [0.0], [0.8]])
    mean, log_std = stack.outputs(where, 50)[0].mean(0).numpy().T
    np.testing.assert_allclose(mean, 100 + 10 * where[:, 0], atol=6.0)
    np.testing.assert_allclose(log_std, np.log(10) + 1.5 * where[:, 0], atol=0.35)


@pytest.mark.parametrize("likelihood", ["gaussian", "input-noise", "student-t"])
def test_several_targets(likelihood):
    X, y = rows(200)
    both = np.stack([y, -3 * y + 7], axis=1)
    network = MLP(3, 20, 4 if likelihood == "input-noise" else 2)
    member = Member(X, both, train=range(150), test=range(150, 200), prior_precision=1.0, noise_precision=10.0)
    training = train(
        [member],
        network,
        Method("vadam", lr=0.03, init_precision=1e4),
        likelihood=likelihood,
        epochs=100,
        compiled=False,
    )
    outputs = training.stack.outputs(X, 20)[0].mean(0)[:, :2].numpy()
    assert np.abs(outputs - both).mean(0) == pytest.approx([0.1, 0.3], abs=0.25)
    log_p = training.stack.log_prob(X[150:], both[150:], 100)
    expected = log_p.logsumexp(1).sub(np.log(100)).mean()
    assert training.scores["log_likelihood"].item() == pytest.approx(expected.item(), rel=1e-3)


def test_counts():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1))
    y = rng.poisson(np.exp(0.5 + 0.8 * X[:, 0]))
    member = Member(X, y, prior_precision=1.0)
    stack = train(
        [member],
        MLP(1, 1),
        Method("vadam", lr=0.03, init_precision=1e4),
        likelihood="poisson",
        epochs=60,
        compiled=False,
    ).stack
    log_rate = stack.outputs(np.array([[0.0], [1.0]]), 50)[0].mean(0)[:, 0].numpy()
    np.testing.assert_allclose(log_rate, [0.5, 1.3], atol=0.15)
    with pytest.raises(ValueError, match="takes counts"):
        train([Member(X, y - 1)], MLP(1, 1), Method("vadam"), likelihood="poisson", epochs=1)
