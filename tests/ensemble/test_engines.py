"""The gradients of the three engines, and the batched ones against autograd."""

import pytest
import torch
from torch import nn

from vadam.ensemble import MLP
from vadam.ensemble.bmm import BatchedMLP
from vadam.ensemble.engine import Examples, choose
from vadam.ensemble.mlp import layers_of
from vadam.likelihoods import FORMULAS

E, S, M = 3, 2, 5


def setting(network, likelihood, dropout):
    torch.manual_seed(0)
    inputs = network[0].in_features
    outputs = network[-1].out_features
    theta = {n: torch.randn(E, S, *p.shape, dtype=torch.float64) for n, p in network.named_parameters()}
    x = torch.randn(E, M, inputs, dtype=torch.float64)
    y = torch.randn(E, M, outputs // 2 if likelihood == "input-noise" else outputs, dtype=torch.float64)
    if likelihood == "bernoulli":
        y = (y > 0).double()
    elif likelihood == "categorical":
        y = nn.functional.one_hot(y.argmax(-1), outputs).double()
    elif likelihood == "poisson":
        y = (3 * y.abs()).round()
    size = torch.tensor([5, 3, 1])
    weight = (torch.arange(M) < size[:, None]) / size[:, None].double()
    weight = weight * (0.5 + torch.rand(E, M, dtype=torch.float64))  # as examples that count more or less
    tau = torch.tensor([1.0, 3.0, 0.5], dtype=torch.float64)
    widths = [layer.in_features for layer in network if isinstance(layer, nn.Linear)]
    keep = tuple((torch.rand(E, S, M, width).double() > 0.3) / 0.7 for width in widths) if dropout else ()
    return theta, Examples(x, y, weight, tau, keep)


@pytest.mark.parametrize("dropout", [False, True], ids=["", "dropout"])
@pytest.mark.parametrize("likelihood", FORMULAS)
@pytest.mark.parametrize("sizes", [(4, 3), (4, 1), (4, 6, 1), (4, 6, 3), (4, 6, 5, 2), (4, 1, 1), (1, 3, 1)], ids=str)
def test_engines_agree(sizes, likelihood, dropout):
    if likelihood == "input-noise":
        *inner, targets = sizes
        sizes = (*inner, 2 * targets)
    network = MLP(*sizes, activation="tanh" if len(sizes) == 4 else "relu")
    theta, examples = setting(network, likelihood, dropout)
    bmm, vmap, loop = (choose(name, network, likelihood) for name in ("bmm", "vmap", "loop"))
    g, h = loop.gradients(theta, examples, squares=True)
    for engine in (bmm, vmap):
        for found, expected in zip(engine.gradients(theta, examples, squares=True), (g, h), strict=True):
            for name in theta:
                torch.testing.assert_close(found[name], expected[name], rtol=1e-11, atol=1e-11)
        assert engine.gradients(theta, examples, squares=False)[1] == {}
        outputs = engine.outputs(theta, examples.x, examples.keep)
        torch.testing.assert_close(outputs, loop.outputs(theta, examples.x, examples.keep), rtol=1e-12, atol=1e-12)


def test_perceptrons_are_recognised():
    assert isinstance(choose("auto", MLP(3, 2, 1), "gaussian"), BatchedMLP)
    plain = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1))
    assert layers_of(plain) == layers_of(MLP(3, 2, 1))
    for other in (
        nn.Linear(3, 1),
        nn.Sequential(nn.Linear(3, 2), nn.GELU(), nn.Linear(2, 1)),
        nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1)),
        nn.Sequential(nn.Linear(3, 2), nn.ReLU()),
        nn.Sequential(nn.Linear(3, 2, bias=False), nn.ReLU(), nn.Linear(2, 1)),
        nn.Sequential(nn.ReLU(), nn.Linear(3, 1)),
        nn.Sequential(),
    ):
        assert layers_of(other) is None, other


def test_perceptron_arguments():
    with pytest.raises(ValueError, match=r"sizes=\(3,\) is not valid"):
        MLP(3)
    with pytest.raises(ValueError, match="activation='gelu' is not valid"):
        MLP(3, 1, activation="gelu")


def test_layers_that_share_a_weight_are_no_perceptron():
    network = MLP(4, 4, 4, 1)
    network[2].weight = network[0].weight
    assert layers_of(network) is None
    theta, examples = setting(network, "gaussian", dropout=False)
    auto, loop = (choose(name, network.double(), "gaussian") for name in ("auto", "loop"))
    for found, expected in zip(
        auto.gradients(theta, examples, squares=True), loop.gradients(theta, examples, squares=True), strict=True
    ):
        for name in theta:
            torch.testing.assert_close(found[name], expected[name], rtol=1e-11, atol=1e-11)
