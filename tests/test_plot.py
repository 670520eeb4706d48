"""Figures: the lines and bands that are drawn are the numbers they stand for."""

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

import vadam
from vadam import metrics, plot
from vadam.prediction import Binary, Classes, Regression

mpl.use("Agg")


@pytest.fixture
def ax():
    return Figure().subplots()


def numbers(n=40):
    return Regression(torch.randn(16, n, 1).cumsum(1), vadam.Gaussian(4.0)), torch.linspace(-1, 1, n).view(n, 1)


def classes(n=200):
    logits = torch.randn(16, n, 3) + 2 * torch.randn(n, 3)
    return Classes(logits, vadam.Categorical()), torch.randint(3, (n,))


def test_band_is_the_interval_in_the_order_of_the_inputs(ax):
    pred, x = numbers()
    mixed = torch.randperm(len(x))
    shuffled = Regression(pred.samples[:, mixed], pred.likelihood)
    assert plot.band(shuffled, x[mixed], level=0.8, data=(x, x.sin()), ax=ax) is ax
    mean, data = ax.lines
    np.testing.assert_allclose(mean.get_xdata(), x.flatten())
    np.testing.assert_allclose(mean.get_ydata(), pred.mean.flatten(), rtol=1e-6)
    assert len(data.get_xdata()) == len(x)
    for drawn, prediction in zip(ax.collections, (pred, Regression(pred.samples)), strict=True):
        corners = drawn.get_paths()[0].vertices
        low, high = prediction.interval(0.8)
        assert corners[:, 1].min() == pytest.approx(float(low.min()), rel=1e-5)
        assert corners[:, 1].max() == pytest.approx(float(high.max()), rel=1e-5)


@pytest.mark.parametrize("outputs", [(40, 1), (40,)])
@pytest.mark.parametrize("targets", [(40, 1), (40,)])
def test_reliability_of_two_classes_takes_networks_of_one_output(ax, outputs, targets):
    pred, y = Binary(torch.randn(8, *outputs), vadam.Bernoulli()), torch.arange(40) % 2
    plot.reliability(pred, y.view(targets), ax=ax)
    _, line = ax.lines
    stated, observed, _ = metrics.reliability_curve(pred.probs.flatten(), y, 10)
    np.testing.assert_allclose(line.get_xdata(), stated, rtol=1e-6)
    np.testing.assert_allclose(line.get_ydata(), observed, rtol=1e-6)


def test_reliability_of_classes_is_the_curve_and_the_diagonal_is_drawn_once(ax):
    pred, y = classes()
    plot.reliability(pred, y, ax=ax, label="one")
    plot.reliability(pred, y, ax=ax, label="two")
    diagonal, line, again = ax.lines
    stated, observed, _ = metrics.reliability_curve(pred.probs, y, 10)
    np.testing.assert_allclose(line.get_xdata(), stated, rtol=1e-6)
    np.testing.assert_allclose(again.get_ydata(), observed, rtol=1e-6)
    assert list(diagonal.get_xdata()) == [0, 1]
    assert line.get_label() == f"one, ECE {float(metrics.ece(pred.probs, y, 10)):.3f}"


def test_reliability_of_numbers_is_the_calibration_curve(ax):
    pred, _ = numbers()
    y = pred.mean + torch.randn_like(pred.mean)
    plot.reliability(pred, y, ax=ax)
    levels, observed = metrics.calibration_curve(pred.cdf(y))
    np.testing.assert_allclose(ax.lines[1].get_ydata(), observed, rtol=1e-6)
    np.testing.assert_allclose(ax.lines[1].get_xdata(), levels, rtol=1e-6)


@pytest.mark.parametrize("likelihood", [vadam.Poisson(), vadam.NegativeBinomial(3.0)])
def test_reliability_of_calibrated_counts_is_the_diagonal(ax, likelihood):
    """The probability of a count jumps; the sum over counts is exact where every count has its share of the targets."""
    output = torch.full((1, 1), 2.0, dtype=torch.float64).log()
    upper = likelihood.cdf(output, torch.arange(40.0).double()[:, None]).flatten()
    shares = (upper - torch.cat([torch.zeros(1), upper[:-1]])) * 20_000
    y = torch.arange(40.0).double().repeat_interleave(shares.round().long())[:, None]
    plot.reliability(Regression(output.expand(1, len(y), 1), likelihood), y, ax=ax)
    np.testing.assert_allclose(ax.lines[1].get_ydata(), ax.lines[1].get_xdata(), atol=0.01)


def test_rejection_ends_at_the_error_of_all_answers(ax):
    pred, y = classes()
    plot.rejection(pred, y, ax=ax)
    assert ax.lines[0].get_xdata()[-1] == 1
    assert ax.lines[0].get_ydata()[-1] == pytest.approx(float((pred.label != y).double().mean()))
    numbers_pred, _ = numbers()
    target = torch.randn_like(numbers_pred.mean)
    plot.rejection(numbers_pred, target, uncertainty=torch.rand(40), ax=ax)
    assert ax.lines[1].get_ydata()[-1] == pytest.approx(float(metrics.rmse(numbers_pred.mean, target)), rel=1e-5)


def test_rejection_refuses_targets_of_another_shape(ax):
    """One label for all rows would be compared with each, and targets [2, 3] would be read as [3, 2]."""
    with pytest.raises(ValueError, match=r"targets of shape \[1\] do not fit"):
        plot.rejection(Classes(torch.randn(5, 7, 3), vadam.Categorical()), [0], ax=ax)
    with pytest.raises(ValueError, match=r"targets of shape \[2, 3\] do not fit"):
        plot.rejection(Regression(torch.randn(5, 3, 2)), torch.randn(2, 3), ax=ax)


def test_a_second_rejection_curve_is_not_cut_off(ax):
    pred, _ = classes()
    plot.rejection(pred, pred.label, ax=ax)
    assert ax.get_ylim() == (0, 1)
    plot.rejection(pred, (pred.label + 1) % 3, ax=ax)
    assert ax.get_ylim()[1] >= 1
    plot.rejection(pred, pred.label, ax=ax)
    assert ax.get_ylim()[1] >= 1


@pytest.mark.parametrize("optimizer", [vadam.Vadam, vadam.EVON, vadam.FullVON, vadam.BBVI])
def test_posterior_shows_every_parameter(ax, optimizer):
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    post = optimizer(model.parameters(), num_data=10).posterior(model)
    plot.posterior(post, ax=ax)
    rows = post.summary().rows
    assert [text.get_text().split()[0] for text in ax.get_yticklabels()] == [row.name for row in rows][::-1]
    means, deviations = ax.lines[-2:]
    assert list(means.get_xdata()) == [row.abs_mean for row in rows][::-1]
    assert list(deviations.get_xdata()) == [row.stddev for row in rows][::-1]


def test_without_axes_there_is_a_new_figure():
    import matplotlib.pyplot as plt

    first = plot.rejection(*classes())
    assert plot.rejection(*classes()) is not first
    plt.close("all")


def test_wrong_use_is_explained(ax):
    pred, y = classes()
    with pytest.raises(TypeError, match="band needs a Regression, got Classes"):
        plot.band(pred, y, ax=ax)
    with pytest.raises(ValueError, match="one output against one input"):
        plot.band(numbers()[0], torch.zeros(3), ax=ax)


def test_arrays_are_as_good_as_tensors(ax):
    pred, x = numbers()
    y = pred.mean + torch.randn_like(pred.mean)
    plot.band(pred, x.numpy(), data=(x.numpy(), y.numpy()), ax=ax)
    plot.reliability(pred, y.flatten().numpy(), ax=Figure().subplots())
    shown = [plot.rejection(pred, target, ax=Figure().subplots()).lines[0].get_ydata() for target in (y, y.numpy())]
    np.testing.assert_array_equal(*shown)
    found, labels = classes()
    plot.reliability(found, labels.numpy(), ax=Figure().subplots())
    plot.rejection(found, labels.numpy(), uncertainty=np.random.default_rng(0).random(200), ax=Figure().subplots())


def test_a_mixture_has_no_summary_to_draw():
    post = vadam.MeanFieldGaussian({"w": torch.ones(3)}, {"w": torch.ones(3)})
    with pytest.raises(
        TypeError, match="posterior needs one Gaussian, got Mixture: of a Mixture draw each of its components"
    ):
        plot.posterior(vadam.Mixture([post, post]))
