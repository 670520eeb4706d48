"""The common interface of all baselines: one row each, through every promise."""

import pytest
import torch
from torch import nn

from vadam.baselines import MAP, DeepEnsemble, DiagonalLaplace, LastLayerLaplace, MCDropout
from vadam.likelihoods import Bernoulli, Categorical, Gaussian
from vadam.prediction import predict

BASELINES = {
    "MAP": MAP,
    "MCDropout": lambda: MCDropout(rate=0.2),
    "DeepEnsemble": lambda: DeepEnsemble(members=3),
    "DiagonalLaplace": DiagonalLaplace,
    "LastLayerLaplace": LastLayerLaplace,
}
every_baseline = pytest.mark.parametrize("make", BASELINES.values(), ids=BASELINES.keys())
LIKELIHOODS = {"Gaussian": Gaussian(10.0), "Bernoulli": Bernoulli(), "Categorical": Categorical()}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@every_baseline
@pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS.keys())
def test_prediction(make, likelihood, regression):
    X, y = regression
    outputs = 3 if isinstance(likelihood, Categorical) else 1
    targets = {
        Gaussian: y,
        Bernoulli: (y > 0).double(),
        Categorical: torch.bucketize(y, torch.tensor([-0.5, 0.5]).double()),
    }
    target = targets[type(likelihood)]
    baseline = make().fit(
        lambda: nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, outputs)).double(),
        X, target, likelihood, epochs=30, batch_size=16, lr=0.02, generator=generator(),
    )  # fmt: skip
    prediction = predict(baseline.model, baseline, X, 20, likelihood=likelihood, generator=generator())
    constant = likelihood.nll(torch.zeros(40, outputs).double(), target)
    assert -prediction.log_prob(target).mean() < constant
    again = predict(baseline.model, baseline, X, 20, likelihood=likelihood, generator=generator(), batch_size=7)
    torch.testing.assert_close(again.samples, prediction.samples)


@every_baseline
def test_generator_decides_everything(make, mlp, regression):
    """Two fits with generators of one seed are the same to the last bit, and torch's own random state stays."""
    X, y = regression
    before = torch.get_rng_state()
    samples = []
    for _ in range(2):
        source = generator(7)
        baseline = make().fit(mlp, X, y, Gaussian(1.0), epochs=3, generator=source)
        samples.append(predict(baseline.model, baseline, X, 5, generator=source).samples)
    assert torch.equal(*samples)
    assert torch.equal(torch.get_rng_state(), before)


@every_baseline
def test_progress(make, mlp, regression):
    told = []
    baseline = make().fit(
        mlp, *regression, Gaussian(1.0), epochs=4, progress=lambda done, total: told.append((done, total))
    )
    total = 12 if isinstance(baseline, DeepEnsemble) else 4
    assert told == [(done, total) for done in range(1, total + 1)]


@every_baseline
def test_before_fit(make):
    baseline = make()
    with pytest.raises(RuntimeError, match=r"call fit\(model, X, y, likelihood\) first"):
        baseline.outputs(torch.zeros(1, 3), 5) if isinstance(baseline, DeepEnsemble) else baseline.sample(5)


@every_baseline
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": torch.zeros(3)}, "same number of rows"),
        ({"batch_size": 0}, "batch_size at least 1, got .* and 0"),
        ({"epochs": -1}, "epochs must be at least 0 .* got -1"),
    ],
)
def test_bad_fit(make, mlp, regression, change, message):
    X, y = regression
    arguments = {"model": mlp, "X": X, "y": y, "likelihood": Gaussian(1.0)} | change
    with pytest.raises(ValueError, match=message):
        make().fit(**arguments)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MAP(prior_precision=0.0), "prior_precision must be positive and finite, got 0.0"),
        (lambda: DiagonalLaplace(prior_precision=-1.0), "prior_precision must be positive and finite, got -1.0"),
        (lambda: DeepEnsemble(members=0), "members must be at least 1, got 0"),
        (lambda: MCDropout(rate=1.0), r"rate must be in \[0, 1\), got 1.0"),
        (lambda: MCDropout(lengthscale=0.0), "lengthscale must be positive and finite, got 0.0"),
    ],
)
def test_bad_hyperparameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("make", [MAP, lambda: MCDropout(0.1), DiagonalLaplace, LastLayerLaplace])
def test_a_module_is_trained_in_place(make, mlp, regression):
    model = mlp()
    frozen = model[0].bias.requires_grad_(False).clone()
    before = model[0].weight.clone()
    baseline = make().fit(model, *regression, Gaussian(1.0), epochs=1)
    assert baseline.model is model
    assert not model.training
    assert not torch.equal(model[0].weight, before)
    assert torch.equal(model[0].bias, frozen)
    assert torch.equal(baseline.sample(3)["0.bias"], frozen.expand(3, 4))
    assert baseline.sample()["0.weight"].shape == (4, 3)
