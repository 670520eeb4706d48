"""Hessians against torch.autograd.functional, Hutchinson by enumerating all sign vectors."""

from itertools import product

import pytest
import torch
from torch import nn

from vadam import curvature
from vadam.curvature import second_order


@pytest.fixture
def params():
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_() for shape in [(2, 3), (), (3,)]
    ]


def coupled(weight, scale, bias):
    return ((weight @ bias).tanh() * scale).sum() ** 2 + (weight**4).sum() * scale + (bias.exp()).prod()


def reference(function, params):
    """Return the whole Hessian by torch's own function, block by block."""
    blocks = torch.autograd.functional.hessian(function, tuple(params))
    sizes = [p.numel() for p in params]
    return torch.cat(
        [
            torch.cat([b.reshape(n, m) for b, m in zip(row, sizes, strict=True)], 1)
            for row, n in zip(blocks, sizes, strict=True)
        ]
    )


def flat(tensors):
    return torch.cat([t.flatten() for t in tensors])


@pytest.mark.parametrize("rows_at_once", [1, 4, 64])
def test_hessian_and_its_diagonal(params, monkeypatch, rows_at_once):
    monkeypatch.setattr(second_order, "ROWS_AT_ONCE", rows_at_once)
    H = reference(coupled, params)
    g = torch.autograd.grad(coupled(*params), params)
    for function, expected in ((curvature.hessian, H), (curvature.hessian_diagonal, H.diagonal())):
        grads, h = function(coupled(*params), params)
        torch.testing.assert_close(flat(grads), flat(g))
        torch.testing.assert_close(h if function is curvature.hessian else flat(h), expected, rtol=1e-12, atol=1e-12)
    assert [h.shape for h in curvature.hessian_diagonal(coupled(*params), params)[1]] == [p.shape for p in params]


def test_hessian_diagonal_of_a_network():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(2, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(9, 2)).double()
    x, y = torch.randn(5, 2, 4, dtype=torch.float64), torch.randint(0, 2, (5,))
    names, params = zip(*model.named_parameters(), strict=True)

    def loss(*values):
        return nn.functional.cross_entropy(
            torch.func.functional_call(model, dict(zip(names, values, strict=True)), x), y
        )

    _, h = curvature.hessian_diagonal(loss(*params), params)
    torch.testing.assert_close(flat(h), reference(loss, params).diagonal(), rtol=1e-10, atol=1e-12)


def test_hutchinson_is_unbiased(params, monkeypatch):
    """The mean over all 2¹⁰ sign vectors is the exact diagonal: not a statistical test."""
    signs = [torch.tensor(s, dtype=torch.float64) for s in product([-1.0, 1.0], repeat=10)]
    drawn = iter(
        part.view_as(p) for s in signs for part, p in zip(s.split([p.numel() for p in params]), params, strict=True)
    )
    monkeypatch.setattr(second_order, "random_signs", lambda like, generator: next(drawn))
    grads, h = curvature.hutchinson(coupled(*params), params, probes=len(signs))
    torch.testing.assert_close(flat(h), reference(coupled, params).diagonal(), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(flat(grads), flat(torch.autograd.grad(coupled(*params), params)))


def test_hutchinson_drawsrandom_signs_from_the_generator(params):
    """On a diagonal Hessian one probe is exact, whatever the signs are."""
    loss = sum((p**2 * c).sum() for c, p in enumerate(params, start=1))
    _, h = curvature.hutchinson(loss, params)
    torch.testing.assert_close(
        flat(h), torch.cat([torch.full((p.numel(),), 2.0 * c) for c, p in enumerate(params, start=1)]).double()
    )
    draws = [
        curvature.hutchinson(coupled(*params), params, generator=torch.Generator().manual_seed(s))[1] for s in (1, 1, 2)
    ]
    assert torch.equal(flat(draws[0]), flat(draws[1]))
    assert not torch.equal(flat(draws[0]), flat(draws[2]))
    assert set(second_order.random_signs(torch.zeros(100), None).tolist()) == {-1.0, 1.0}


@pytest.mark.parametrize("function", [curvature.hessian_diagonal, curvature.hessian, curvature.hutchinson])
def test_parameters_without_curvature_get_zeros(function):
    used, linear, unused = (torch.ones(2, requires_grad=True) for _ in range(3))
    grads, h = function((used**2).sum() + 3 * linear.sum(), [used, linear, unused])
    assert flat(grads).tolist() == [2, 2, 3, 3, 0, 0]
    h = h.diagonal() if function is curvature.hessian else flat(h)
    assert h.tolist() == [2, 2, 0, 0, 0, 0]
    grads, h = function(3 * linear.sum(), [linear])
    assert flat(grads).tolist() == [3, 3]
    assert not flat(h).any()
    assert not any(g.requires_grad for g in grads)


@pytest.mark.parametrize(
    ("function", "way_out"), [(curvature.hessian_diagonal, "hutchinson"), (curvature.hessian, "hessian_diagonal")]
)
def test_size_limit(function, way_out):
    p = torch.ones(11, requires_grad=True)
    with pytest.raises(ValueError, match=f"11 parameters are more than limit = 10: .*{way_out}"):
        function((p**2).sum(), [p], limit=10)


def test_loss_without_a_graph():
    p = torch.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="carries no graph"):
        curvature.hessian_diagonal((p**2).sum().detach(), [p])
    with pytest.raises(ValueError, match="probes must be at least 1, got 0"):
        curvature.hutchinson((p**2).sum(), [p], probes=0)
