"""The fitted noise against closed forms."""

import math

import pytest
import torch

from vadam.tuning.noise import noise_precision

pytest.importorskip("scipy", reason="scipy is not installed")


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_of_one_sample_it_is_the_mean_squared_error(scale):
    """Over all pairs together, in any units."""
    generator = torch.Generator().manual_seed(0)
    pairs = [(torch.zeros(1, n, 1).double(), scale * torch.randn(n, 1, generator=generator).double()) for n in (30, 70)]
    errors = torch.cat([(y - f[0]) for f, y in pairs])
    assert noise_precision(pairs) == pytest.approx(1 / float((errors**2).mean()), rel=0.01)


def test_samples_that_spread_take_the_place_of_noise():
    """Targets of variance 1; samples N(0, 0.6²) leave a noise of variance 1 − 0.36."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(4000, 1, generator=generator).double()
    f = 0.6 * torch.randn(400, 1, 1, generator=generator).double().expand(400, 4000, 1)
    assert noise_precision([(f, y)]) == pytest.approx(1 / 0.64, rel=0.1)
    assert noise_precision([(0 * f[:1], y)]) == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize("deviation", [0.03, 0.3])
def test_samples_that_explain_nearly_all(deviation):
    """Targets are one of two samples, plus a little noise: the mean of the samples is far from either."""
    generator = torch.Generator().manual_seed(0)
    f = torch.tensor([-1.0, 1.0]).double()[:, None, None].expand(2, 4000, 1)
    y = torch.randint(0, 2, (4000, 1), generator=generator).double() * 2 - 1
    y = y + deviation * torch.randn(4000, 1, generator=generator).double()
    assert noise_precision([(f, y)]) == pytest.approx(deviation**-2, rel=0.1)


def test_samples_that_spread_far_beyond_the_error_of_their_mean():
    """The targets are the mean of two samples at ±1: every sample is wrong by 1, which only noise of variance 1 explains."""
    f = torch.tensor([-1.0, 1.0]).double()[:, None, None].expand(2, 50, 1)
    assert noise_precision([(f, torch.zeros(50, 1).double())]) == pytest.approx(1.0, rel=0.02)


def test_targets_and_outputs_without_their_last_axis():
    """A vector of targets against outputs [S, n, 1] is no table of all pairs."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(50, 1, generator=generator).double()
    f = y + 0.5 * torch.randn(4, 50, 1, generator=generator).double()
    wanted = noise_precision([(f, y)])
    for outputs, targets in ((f, y[:, 0]), (f[..., 0], y), (f[..., 0], y[:, 0])):
        assert noise_precision([(outputs, targets)]) == wanted
    with pytest.raises(ValueError, match="targets of shape"):
        noise_precision([(f, y[:1])])


def test_predictions_without_error():
    y = torch.ones(5, 1).double()
    assert math.isfinite(noise_precision([(y[None], y)]))
