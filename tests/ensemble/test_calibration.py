"""The fitted noise against closed forms."""

import math

import pytest
import torch

from vadam.ensemble.calibration import noise_precision

pytest.importorskip("scipy", reason="scipy is not installed")


@pytest.mark.parametrize("start", [0.3, 4.0, 100.0])
def test_of_one_sample_it_is_the_mean_squared_error(start):
    """Over all pairs together, wherever the search starts."""
    generator = torch.Generator().manual_seed(0)
    pairs = [(torch.zeros(1, n, 1).double(), torch.randn(n, 1, generator=generator).double() / 2) for n in (30, 70)]
    errors = torch.cat([(y - f[0]) for f, y in pairs])
    assert noise_precision(pairs, start) == pytest.approx(1 / float((errors**2).mean()), rel=0.01)


def test_samples_that_spread_take_the_place_of_noise():
    """Targets of variance 1; samples N(0, 0.6²) leave a noise of variance 1 − 0.36."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(4000, 1, generator=generator).double()
    f = 0.6 * torch.randn(400, 1, 1, generator=generator).double().expand(400, 4000, 1)
    assert noise_precision([(f, y)], 1.0) == pytest.approx(1 / 0.64, rel=0.1)
    assert noise_precision([(0 * f[:1], y)], 1.0) == pytest.approx(1.0, rel=0.1)


def test_within_four_powers_of_e_of_the_start():
    f, y = torch.zeros(1, 5, 1).double(), torch.full((5, 1), 1e-9).double()
    assert noise_precision([(f, y)], 2.0) == pytest.approx(2 * math.exp(4), rel=0.02)
