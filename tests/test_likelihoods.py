"""Likelihoods against torch.distributions and torch's own losses, in float64."""

import pytest
import torch
from torch import distributions
from torch.nn import functional as F

from vadam.likelihoods import FORMULAS, Bernoulli, Categorical, Gaussian, NegativeBinomial, Poisson, like_output

B = 7


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("shape", [(B,), (B, 1), (B, 3), (B, 2, 3)])
def test_gaussian(shape):
    f, y = randn(*shape), randn(*shape)
    expected = distributions.Normal(f, 0.5).log_prob(y).reshape(B, -1).sum(1)
    torch.testing.assert_close(Gaussian(4.0).log_prob(f, y), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(Gaussian(4.0).nll(f, y), -expected.mean(), rtol=1e-12, atol=1e-12)


def test_gaussian_noise_per_output_and_its_gradient():
    tau = torch.tensor([1.0, 4.0, 9.0], dtype=torch.float64, requires_grad=True)
    f, y = randn(B, 3), randn(B, 3)
    expected = distributions.Normal(f, tau.rsqrt()).log_prob(y).sum(1)
    torch.testing.assert_close(Gaussian(tau).log_prob(f, y), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(Gaussian(tau).std(f), tau.rsqrt().expand(B, 3))
    (grad,) = torch.autograd.grad(Gaussian(tau).nll(f, y), tau)
    torch.testing.assert_close(grad, torch.autograd.grad(-expected.mean(), tau)[0])


@pytest.mark.parametrize("shape", [(B,), (B, 1), (B, 3)])
def test_bernoulli(shape):
    f, y = 30 * randn(*shape), torch.randint(2, shape)
    expected = distributions.Bernoulli(logits=f).log_prob(y.double()).reshape(B, -1).sum(1)
    torch.testing.assert_close(Bernoulli().log_prob(f, y), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(Bernoulli().nll(f, y), -expected.mean(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(Bernoulli().class_log_probs(f).exp()[..., 1], f.sigmoid())


@pytest.mark.parametrize("axes", [(B,), (B, 5)])
def test_categorical(axes):
    f, y = 10 * randn(*axes, 4), torch.randint(4, axes)
    expected = distributions.Categorical(logits=f).log_prob(y).reshape(B, -1).sum(1)
    torch.testing.assert_close(Categorical().log_prob(f, y), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(Categorical().nll(f, y), -expected.mean(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(Categorical().class_log_probs(f), f.log_softmax(-1))
    if len(axes) == 1:
        torch.testing.assert_close(Categorical().nll(f, y), F.cross_entropy(f, y))


@pytest.mark.parametrize(
    ("likelihood", "f", "y"),
    [
        (Gaussian(2.0), randn(B, 2), randn(B, 2)),
        (Bernoulli(), randn(B), torch.randint(2, (B,))),
        (Categorical(), randn(B, 3), torch.randint(3, (B,))),
    ],
)
def test_the_loss_of_each_example_can_be_vmapped(likelihood, f, y):
    """Per-example gradients take the loss of batches of one."""
    each = torch.vmap(lambda f, y: likelihood.nll(f[None], y[None]))(f, y)
    torch.testing.assert_close(each, -likelihood.log_prob(f, y), rtol=1e-12, atol=1e-12)


def test_targets_with_and_without_a_last_axis_of_one_are_the_same():
    f, y = randn(B), randn(B)
    one = Gaussian(1.0).nll(f, y)
    assert Gaussian(1.0).nll(f[:, None], y) == one
    assert Gaussian(1.0).nll(f, y[:, None]) == one
    assert like_output(y, f[:, None]).shape == (B, 1)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: Gaussian(0.0), "noise_precision=0.0"),
        (lambda: Gaussian(-1.0), "noise_precision=-1.0"),
        (lambda: Gaussian(torch.tensor([1.0, float("inf")])), "noise_precision=tensor"),
        (lambda: Gaussian(1.0).nll(randn(B, 3), randn(B)), "targets of shape [7] do not fit outputs of shape [7, 3]"),
        (lambda: Bernoulli().nll(randn(B), randn(B + 1)), "targets of shape [8]"),
        (lambda: Categorical().nll(randn(B, 3), torch.zeros(B, 3)), "the classes are on the last axis"),
        (
            lambda: Bernoulli().nll(randn(B), 2.0 * (randn(B) > 9) - 1),
            "y holds -1: the labels of Bernoulli are 0 and 1",
        ),
        (lambda: Bernoulli().nll(randn(B), torch.full((B,), 2)), "y holds 2: the labels of Bernoulli are 0 and 1"),
        (lambda: Poisson().nll(randn(B), torch.full((B,), -1.5)), "y holds -1.5: counts are at least 0"),
        (lambda: NegativeBinomial(3.0).nll(randn(B), torch.full((B,), -1)), "y holds -1: counts are at least 0"),
    ],
)
def test_wrong_use_is_explained(act, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        act()
    assert message in str(error.value)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32])
def test_class_numbers_of_every_whole_type(dtype):
    f, y = randn(B, 3), torch.randint(3, (B,))
    torch.testing.assert_close(Categorical().log_prob(f, y.to(dtype)), Categorical().log_prob(f, y))


def test_labels_between_0_and_1_are_mixed_ones():
    f, y = randn(B), torch.rand(B, dtype=torch.float64)
    expected = y * Bernoulli().log_prob(f, torch.ones(B)) + (1 - y) * Bernoulli().log_prob(f, torch.zeros(B))
    torch.testing.assert_close(Bernoulli().log_prob(f, y), expected)


def log_prob(likelihood, output, y, tau):
    return FORMULAS[likelihood].log_density(output, y, tau).sum(-1)


@pytest.mark.parametrize("likelihood", FORMULAS)
def test_residual_is_the_derivative(likelihood):
    torch.manual_seed(0)
    outputs = torch.randn(3, 4, 2, dtype=torch.float64, requires_grad=True)
    y = F.one_hot(torch.randint(2, (3, 4)), 2).double()
    y = y[..., :1] if likelihood == "input-noise" else y
    tau = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)[:, None, None]
    formulas = FORMULAS[likelihood]
    (expected,) = torch.autograd.grad(-formulas.log_density(outputs, y, tau).sum(), outputs)
    torch.testing.assert_close(formulas.residual(outputs, y, tau), expected)


def test_formulas_are_those_of_torch():
    torch.manual_seed(0)
    f = torch.randn(6, 3, dtype=torch.float64)
    y, c, tau = torch.randn(6, 3, dtype=torch.float64), torch.randint(3, (6,)), torch.tensor(2.5, dtype=torch.float64)
    normal = torch.distributions.Normal(f, tau**-0.5).log_prob(y).sum(-1)
    torch.testing.assert_close(log_prob("gaussian", f, y, tau), normal)
    coin = torch.distributions.Bernoulli(logits=f).log_prob((y > 0).double()).sum(-1)
    torch.testing.assert_close(log_prob("bernoulli", f, (y > 0).double(), tau), coin)
    student = torch.distributions.StudentT(4.0, f, tau**-0.5).log_prob(y).sum(-1)
    torch.testing.assert_close(log_prob("student-t", f, y, tau), student)
    counts = (3 * y.abs()).round()
    torch.testing.assert_close(
        log_prob("poisson", f, counts, tau), torch.distributions.Poisson(f.exp()).log_prob(counts).sum(-1)
    )
    both = torch.cat([f, f.flip(0)], -1)
    noisy = torch.distributions.Normal(f, f.flip(0).exp() * tau**-0.5).log_prob(y).sum(-1)
    torch.testing.assert_close(log_prob("input-noise", both, y, tau), noisy)
    classes = torch.distributions.Categorical(logits=f).log_prob(c)
    torch.testing.assert_close(log_prob("categorical", f, F.one_hot(c, 3).double(), tau), classes)


def test_extreme_logits_of_a_stack_stay_finite():
    f = torch.tensor([[1e4], [-1e4]], dtype=torch.float64)
    y = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    assert log_prob("bernoulli", f, y, torch.ones(())).tolist() == [-1e4, -1e4]


@pytest.mark.parametrize("label", [-100, -1, 3])
def test_a_label_that_is_no_class_is_refused(label):
    """Torch ignores -100, so a row with it would have log p = 0, and the mean loss of a padded batch would be too small."""
    with pytest.raises(IndexError, match="out of bounds"):
        Categorical().nll(torch.zeros(2, 3), torch.tensor([0, label]))
