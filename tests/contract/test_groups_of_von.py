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


@pytest.mark.parametrize("samples", [2, 4])
@pytest.mark.parametrize("curvature", ["exact", "hutchinson", "full"])
def test_the_squares_of_all_samples_count_for_deterministic_weights(curvature: str, samples: int) -> None:
    """Adam's first step is α (ĝ + λ̃μ)/(√ĥ + λ̃), where ĥ is the mean of the squares of all samples' gradients."""
    torch.manual_seed(0)
    x, y = torch.randn(8, 3, dtype=torch.float64), torch.randn(8, 1, dtype=torch.float64)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    body, head = list(model[0].parameters()), list(model[2].parameters())
    groups = [{"params": body}, {"params": head, "deterministic": True, "lr": 0.1}]
    common = {"num_data": 100, "samples": samples}
    opt = vadam.FullVON(groups, **common) if curvature == "full" else vadam.VON(groups, curvature=curvature, **common)
    before, seen = head[0].detach().clone(), []

    def loss() -> Tensor:
        value = (model(x) - y).square().mean()
        seen.append(torch.autograd.grad(value, head[0], retain_graph=True)[0])
        return value

    opt.step(loss)
    g = torch.stack(seen)
    expected = before - 0.1 * (g.mean(0) + before / 100) / (g.square().mean(0).sqrt() + 1 / 100)
    torch.testing.assert_close(head[0].detach(), expected)
