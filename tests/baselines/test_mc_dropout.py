"""MC-Dropout: the posterior by enumerating all masks, the objective against Gal's formula written out."""

import itertools

import pytest
import torch
from torch import nn
from torch.func import functional_call

from vadam.baselines import MCDropout
from vadam.likelihoods import Categorical, Gaussian


def untrained(model, rate):
    """Return a baseline with the current weights."""
    return MCDropout(rate).fit(model, torch.zeros(1, 1), torch.zeros(1), Gaussian(1.0), epochs=0)


def test_objective_is_gals(mlp, regression):
    """Without dropping, the fit follows Adam on mean squared error + reg Σ‖W‖², reg = l²/(2Nτ), biases free.

    The loss here is τ/2 times Gal's; Adam's path is the same when its eps is scaled along.
    """
    X, y = regression
    tau, lengthscale = 5.0, 3.0
    model, twin = mlp(), mlp()
    twin.load_state_dict(model.state_dict())
    MCDropout(rate=0.0, lengthscale=lengthscale).fit(
        model, X, y, Gaussian(tau), epochs=3, batch_size=16, lr=0.01, generator=torch.Generator().manual_seed(1)
    )

    reg = lengthscale**2 * (1 - 0.0) / (2 * len(X) * tau)
    optimizer = torch.optim.Adam(twin.parameters(), lr=0.01, eps=1e-8 * 2 / tau)
    order = torch.Generator().manual_seed(1)
    # At rate 0 the masks of the two layers still advance the generator: 3 and 4 numbers for each row.
    for _ in range(3):
        for rows in torch.randperm(40, generator=order).split(16):
            for features in (3, 4):
                torch.empty(len(rows), features).bernoulli_(1.0, generator=order)
            optimizer.zero_grad()
            error = (twin(X[rows])[:, 0] - y[rows]).square().mean()
            (error + reg * (twin[0].weight.square().sum() + twin[2].weight.square().sum())).backward()
            optimizer.step()
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=1e-10)


def test_posterior_by_enumeration():
    """2 inputs and 3 hidden units have 32 masks; the mean of f over 40,000 draws is within five standard errors."""
    rate, model, x = (
        0.3,
        nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)).double(),
        torch.randn(5, 2).double(),
    )
    mean, square = torch.zeros(5).double(), torch.zeros(5).double()
    for kept in itertools.product([0, 1], repeat=5):
        z = torch.tensor(kept).double()
        probability = ((1 - rate) ** z * rate ** (1 - z)).prod()
        hidden = torch.tanh(model[0](x * z[:2] / (1 - rate)))
        f = model[2](hidden * z[2:] / (1 - rate))[:, 0].detach()
        mean, square = mean + probability * f, square + probability * f**2
    variance = square - mean**2

    draws = untrained(model, rate).sample(40_000, generator=torch.Generator().manual_seed(0))
    f = torch.vmap(lambda weights: functional_call(model, weights, (x,)))(draws)[..., 0].detach()
    standard_error = (variance / 40_000).sqrt()
    assert ((f.mean(0) - mean).abs() < 5 * standard_error).all()
    assert ((f.var(0) / variance - 1).abs() < 0.05).all()


def test_training_masks_have_the_same_distribution():
    """One input many times: masks of their own in training, against enumeration of the mean of f."""
    rate, model, x = 0.3, nn.Linear(2, 1).double(), torch.tensor([[1.0, -2.0]]).double()
    baseline = untrained(model, rate)
    with baseline.dropping_inputs(model, torch.Generator().manual_seed(0)):
        f = model(x.expand(40_000, 2)).detach()[:, 0]
    a, b = (model.weight[0] * x[0]).tolist()
    expected_variance = rate / (1 - rate) * (a**2 + b**2)
    assert abs(f.mean() - model(x).item()) < 5 * (expected_variance / 40_000) ** 0.5
    assert abs(f.var().item() / expected_variance - 1) < 0.05
    assert len(f.unique()) == 4


def test_the_networks_own_inputs_can_be_spared():
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(16, 3))
    baseline = MCDropout(0.5, drop_inputs=False)
    baseline.model = model
    draws = baseline.sample(3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(draws["0.weight"], model[0].weight.detach().expand(3, 4, 1, 3, 3))
    assert (draws["2.weight"] == 0).any()
    seen = []
    model[0].register_forward_hook(lambda module, args, output: seen.append(args[0]))
    x = torch.ones(50, 1, 4, 4)
    with baseline.dropping_inputs(model, torch.Generator().manual_seed(0)):
        outputs = model(x)
    assert torch.equal(seen[0], x)
    assert len(outputs.unique(dim=0)) > 1


@pytest.mark.parametrize(
    ("layer", "x"),
    [
        (nn.Conv1d(4, 6, 3, groups=2), torch.randn(2, 4, 7)),
        (nn.Conv2d(3, 5, 3, stride=2, padding=1), torch.randn(2, 3, 8, 8)),
        (nn.Conv3d(2, 2, 1, groups=2), torch.randn(2, 2, 3, 3, 3)),
        (nn.Linear(4, 2), torch.randn(2, 5, 4)),
    ],
)
def test_masked_weights_are_masked_inputs(layer, x):
    """For every draw, dropping input channels and dropping weights give the same outputs."""
    layer, x = layer.double(), x.double()
    axis = -1 if isinstance(layer, nn.Linear) else 1
    draws = untrained(layer, 0.5).sample(8, generator=torch.Generator().manual_seed(0))
    channels = torch.eye(x.shape[axis]).double()
    for draw in range(8):
        weights = {name: value[draw] for name, value in draws.items()}
        shape = [1] * x.dim()
        shape[axis] = -1
        alone = [
            functional_call(layer, weights, (x * c.reshape(shape),))
            - layer.bias.reshape([-1 if i == axis % x.dim() else 1 for i in range(x.dim())])
            for c in channels
        ]
        kept = torch.tensor([float(part.abs().max() > 1e-12) for part in alone]).double()
        expected = layer(x * (2 * kept).reshape(shape))
        torch.testing.assert_close(functional_call(layer, weights, (x,)), expected)


def test_hooks_are_gone_after_training(mlp, regression):
    model = mlp()
    MCDropout(0.5).fit(model, *regression, Gaussian(1.0), epochs=1)
    assert torch.equal(model(regression[0]), model(regression[0]))

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        MCDropout(0.5).fit(model, *regression, Gaussian(1.0), progress=stop)
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_no_layer_to_drop():
    with pytest.raises(ValueError, match="Linear or Conv layers, and Embedding has none"):
        untrained(nn.Embedding(3, 2), 0.1)


@pytest.mark.parametrize("layer", [nn.Dropout(0.3), nn.Dropout1d(0.3), nn.LSTM(4, 4, 2, dropout=0.3)])
def test_a_network_that_drops_out_itself_is_refused(layer):
    """Otherwise units are dropped twice in the training, and once in the predictions."""
    model = nn.Sequential(nn.Linear(1, 4), layer, nn.Linear(4, 1))
    with pytest.raises(ValueError, match=r"'1' drops out, too: set its rate to 0"):
        untrained(model, 0.5)


@pytest.mark.parametrize("linear_first", [True, False])
def test_layers_that_share_a_weight_are_refused(linear_first):
    """A mask of one layer would drop weights of the other."""
    table, last = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
    last.weight = table.weight
    model = nn.ModuleDict({"last": last, "table": table} if linear_first else {"table": table, "last": last})
    with pytest.raises(ValueError, match=r"'last\.weight' is also another layer's: untie them"):
        MCDropout(0.5).fit(model, torch.arange(5), torch.arange(5), Categorical(), epochs=0)
