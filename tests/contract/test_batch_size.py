"""Batch sizes that do not match the examples of a step, as far as an attached model shows them."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import vadam


def loop(batch_size: int, rows: int, steps: int = 5, passes: int = 1, samples: int = 1, build=vadam.Vadam) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    opt = build(
        model.parameters(), num_data=1000, batch_size=batch_size, samples=samples, init_precision=1000.0
    ).attach(model)
    for _ in range(steps):
        opt.zero_grad()
        for _ in range(passes * samples):
            (model(torch.randn(rows, 3)).square().mean() / passes).backward()
        opt.step()
    return model


@pytest.mark.parametrize("build", [vadam.Vadam, vadam.Vprop, vadam.VadamGGN])
def test_a_wrong_number_is_said_once_with_the_right_one(build):
    with pytest.warns(UserWarning, match=r"batch_size=32, but a step sees 64 examples: pass batch_size=64") as caught:
        loop(32, 64, steps=20, build=build)
    assert len(caught) == 1


def test_micro_batches_count_together():
    with pytest.warns(UserWarning, match=r"sees 2 forward passes of 32 examples: pass batch_size=64"):
        loop(32, 32, passes=2)
    loop(64, 32, passes=2)


def test_a_wrong_number_is_said_with_several_samples():
    with pytest.warns(UserWarning, match=r"batch_size=32, but a step sees 64 examples: pass batch_size=64"):
        loop(32, 64, samples=2)


@pytest.mark.parametrize("samples", [1, 3])
def test_the_right_number_is_silent(samples):
    loop(64, 64, samples=samples)


def test_a_smaller_last_batch_and_sequence_first_inputs_are_silent():
    torch.manual_seed(0)
    model = nn.RNN(3, 2)
    opt = vadam.Vadam(model.parameters(), num_data=1000, batch_size=8, init_precision=1000.0).attach(model)
    for rows in (8, 8, 5) * 3:
        opt.zero_grad()
        model(torch.randn(7, rows, 3))[0].square().mean().backward()
        opt.step()


@pytest.mark.parametrize("samples", [1, 2])
def test_two_forward_passes_before_one_backward_pass_are_silent(samples):
    """In a siamese network an example is a pair."""
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    opt = vadam.Vadam(model.parameters(), num_data=1000, batch_size=8, samples=samples, init_precision=1000.0).attach(
        model
    )
    for _ in range(5):
        opt.zero_grad()
        for _ in range(samples):
            (model(torch.randn(8, 3)) - model(torch.randn(8, 3))).square().mean().backward()
        opt.step()


def test_passes_in_the_step_of_another_optimizer_do_not_count():
    """The discriminator of a GAN takes part in the generator's steps too."""
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    opt = vadam.Vadam(model.parameters(), num_data=1000, batch_size=16, init_precision=1000.0).attach(model)
    for _ in range(5):
        opt.zero_grad()
        for _ in range(2):
            (model(torch.randn(8, 3)).mean() / 2).backward()
        opt.step()
        model(torch.randn(8, 3)).mean().backward()


def test_a_batch_size_that_changes_is_compared_as_it_is_now():
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    opt = vadam.Vadam(model.parameters(), num_data=1000, batch_size=8, init_precision=1000.0).attach(model)
    for rows in (8, 16):
        opt.param_groups[0]["batch_size"] = rows
        for _ in range(5):
            opt.zero_grad()
            model(torch.randn(rows, 3)).square().mean().backward()
            opt.step()


def test_copies_of_an_attached_model_watch_nothing():
    model = loop(64, 64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            for _ in range(5):
                other(torch.randn(3, 3))


def test_corrected_precisions_follow_the_definition():
    """Ten float64 steps at fixed gradients against numpy: Vadam counts s/w of ĝ∘ĝ, VadamGGN's s averages w times the mean of squares."""
    import numpy as np

    N, M, lam, gamma2 = 50, 5, 2.0, 0.9
    w = (N - M) / (M * (N - 1))
    x = torch.randn(M, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for build, h in ((vadam.Vadam, x.mean(0).numpy() ** 2), (vadam.VadamGGN, w * (x**2).mean(0).numpy())):
        model = nn.Linear(3, 1, bias=False, dtype=torch.float64)
        opt = build(
            model.parameters(), betas=(0.9, gamma2), num_data=N, batch_size=M, prior_precision=lam, init_precision=20.0
        ).attach(model)
        s, s0 = np.zeros(3), (20.0 - lam) / N
        for _ in range(10):
            opt.zero_grad()
            model(x).mean().backward()  # the gradient of example i is x_i, whatever the weights
            opt.step()
            s, s0 = gamma2 * s + (1 - gamma2) * h, gamma2 * s0
        expected = N * s / w + N * s0 + lam
        np.testing.assert_allclose(opt.posterior(model).precision["weight"][0].numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("build", [vadam.Vadam, vadam.Vprop, vadam.VadamGGN])
def test_a_batch_size_that_grows_to_all_data_is_refused(build):
    model = nn.Linear(3, 1)
    opt = build(model.parameters(), num_data=10, batch_size=5).attach(model)
    opt.param_groups[0]["batch_size"] = 20
    with pytest.raises(ValueError, match="batch_size must be below num_data=10, got 20"):
        model(torch.randn(5, 3)).mean().backward()


@pytest.mark.parametrize("number", [np.int64, np.float32, torch.tensor])
def test_a_batch_of_all_data_is_refused_where_numpy_counted_it(number):
    for sizes in ({"num_data": number(50), "batch_size": 50}, {"num_data": 50, "batch_size": number(50)}):
        with pytest.raises(ValueError, match="batch_size must be below num_data="):
            vadam.Vadam(nn.Linear(3, 1).parameters(), **sizes)
