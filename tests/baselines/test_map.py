"""MAP against the loop written out with its penalty in the loss, and against ridge regression."""

import torch
from torch import nn

from vadam.baselines import MAP
from vadam.exact import linear
from vadam.likelihoods import Gaussian


def test_equals_adam_on_the_penalised_loss(mlp, regression):
    """The last minibatch has 40 − 2·16 = 8 rows and is averaged over 8."""
    X, y = regression
    model, twin = mlp(), mlp()
    twin.load_state_dict(model.state_dict())
    MAP(prior_precision=3.0).fit(
        model, X, y, Gaussian(5.0), epochs=3, batch_size=16, lr=0.01, generator=torch.Generator().manual_seed(1)
    )

    order = torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(twin.parameters(), lr=0.01)
    for _ in range(3):
        permutation = torch.randperm(40, generator=order)
        for rows in (permutation[:16], permutation[16:32], permutation[32:]):
            optimizer.zero_grad()
            nll = 2.5 * (twin(X[rows])[:, 0] - y[rows]).square().mean()
            penalty = 1.5 * sum(p.square().sum() for p in twin.parameters()) / 40
            (nll + penalty).backward()
            optimizer.step()
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=1e-12)


def test_linear_model_is_ridge_regression(regression):
    """The mode of a Gaussian posterior is its mean; Adam at a constant rate settles to about 1e-6."""
    X, y = regression
    baseline = MAP(prior_precision=2.0).fit(
        nn.Linear(3, 1, bias=False).double(), X, y, Gaussian(5.0), epochs=3000, batch_size=40, lr=0.01
    )
    expected = linear.fit(X, y, noise_precision=5.0, prior_precision=2.0).mean
    torch.testing.assert_close(baseline.sample(2)["weight"], expected.expand(2, 1, 3), rtol=0, atol=1e-4)
