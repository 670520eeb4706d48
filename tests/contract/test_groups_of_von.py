"""VON with deterministic weights: they cost a gradient, not a Hessian."""

import pytest
import torch
from torch import Tensor, nn

import vadam


@pytest.mark.parametrize("curvature", ["exact", "hutchinson"])
def test_a_small_head_on_a_large_body(curvature: str) -> None:
    """For a model that is quadratic in the head, H = 2/M Σ aᵢ² whatever the sample; the body takes Adam's steps."""
    torch.manual_seed(0)
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1, bias=False))
    groups = [{"params": list(model[0].parameters()), "deterministic": True}, {"params": list(model[2].parameters())}]
    opt = vadam.VON(groups, lr=0.01, beta=0.0, num_data=100, curvature=curvature, limit=8, probes=4000)
    a, before = model[:2](x).detach(), model[0].weight.detach().clone()

    def loss() -> Tensor:
        return (model(x) - y).square().mean()

    opt.step(loss)
    expected = 2 * a.square().mean(0, keepdim=True)
    tolerance = 1e-5 if curvature == "exact" else 0.15
    torch.testing.assert_close(opt.state[model[2].weight]["s"], expected, rtol=tolerance, atol=tolerance)
    assert not torch.equal(model[0].weight, before)
