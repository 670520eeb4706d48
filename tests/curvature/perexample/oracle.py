"""The reference that the engine is compared with, and the details of the comparison."""

import torch

from vadam.curvature.perexample import PerExampleSquares, loop


def loss_fn(output, target):
    """Return a mean over examples in which every output element has its own weight."""
    flat = output.flatten(1)
    weights = torch.linspace(-1, 2, flat.shape[1], dtype=flat.dtype)
    return ((flat * weights).sum(1) - target).square().mean() + (flat**2).sum(1).mean()


def squares(model, x, y, **options):
    engine = PerExampleSquares(model, **options)
    loss_fn(model(x), y).backward()
    taken = engine.take()
    engine.remove()
    return taken


def on_one_graph(model, x, y):
    """Return mean_i (∇f_i)² by differentiating each example's loss on the graph of the whole minibatch.

    Dropout masks are those of the minibatch.
    """
    params = [p for p in model.parameters() if p.requires_grad]
    output = model(x)
    h = {p: torch.zeros_like(p) for p in params}
    for i in range(len(y)):
        grads = torch.autograd.grad(loss_fn(output[i : i + 1], y[i : i + 1]), params, retain_graph=True)
        for p, g in zip(params, grads, strict=True):
            h[p] += g**2 / len(y)
    return h


def assert_same(h, expected, rtol=1e-10):
    assert set(h) == set(expected)
    largest = max(e.abs().max().item() for e in expected.values())
    for p, e in expected.items():
        torch.testing.assert_close(h[p], e, rtol=rtol, atol=rtol * largest)


def assert_equals_loop(model, x, rtol=1e-10, **options):
    y = torch.randn(len(x), dtype=torch.float64)
    assert_same(squares(model, x, y, **options), loop(model, loss_fn, x, y), rtol)
