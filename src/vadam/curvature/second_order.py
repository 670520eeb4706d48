"""Second derivatives of a loss by automatic differentiation.

Three functions: the full Hessian, its exact diagonal, and Hutchinson's estimate of the diagonal. Each takes a loss
with its graph, differentiates twice and returns ``(grads, curvature)``. The graph is freed afterwards. A parameter
that does not influence the loss gets zeros.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Generator, Tensor

ROWS_AT_ONCE = 64  # Hessian rows in one batched backward pass: enough to amortise Python, few enough for memory


def hessian_diagonal(
    loss: Tensor, params: Sequence[Tensor], *, limit: int = 20_000
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the gradient and the exact diagonal of ∇²loss, both shaped as ``params``.

    It costs D Hessian-vector products for D parameters. Above ``limit`` parameters it raises ValueError.
    """
    _check_size(
        params,
        limit,
        "the exact Hessian diagonal costs one backward pass per parameter: use hutchinson, or raise limit",
    )
    grads = _gradient(loss, params)
    diagonal = [rows.diagonal(offset=first) for first, rows in _hessian_rows(grads, params)]
    return _detached(grads), _shaped(torch.cat(diagonal), params)


def hessian(loss: Tensor, params: Sequence[Tensor], *, limit: int = 2_000) -> tuple[list[Tensor], Tensor]:
    """Return the gradient, shaped as ``params``, and the Hessian [D, D] in the order of the flattened parameters."""
    _check_size(params, limit, "the full Hessian has that many rows and columns: use hessian_diagonal, or raise limit")
    grads = _gradient(loss, params)
    return _detached(grads), torch.cat([rows for _, rows in _hessian_rows(grads, params)])


def hutchinson(
    loss: Tensor, params: Sequence[Tensor], *, probes: int = 1, generator: Generator | None = None
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the gradient and Hutchinson's unbiased estimate z∘(∇²loss z) of the Hessian's diagonal.

    The estimate is the mean over ``probes`` draws of a vector z of random signs.
    """
    if probes < 1:
        raise ValueError(f"probes must be at least 1, got {probes}")
    grads = _gradient(loss, params)
    estimate = [torch.zeros_like(p) for p in params]
    for probe in range(probes):
        signs = [random_signs(p, generator) for p in params]
        products = _vector_products(grads, params, signs, last=probe == probes - 1)
        for h, z, Hz in zip(estimate, signs, products, strict=True):
            h.add_(z * Hz, alpha=1 / probes)
    return _detached(grads), estimate


def _gradient(loss: Tensor, params: Sequence[Tensor]) -> list[Tensor]:
    if not loss.requires_grad:
        raise ValueError(
            "the loss carries no graph: return the loss itself, not loss.item() or a detached tensor, and do not call backward()"
        )
    with explain_graph_errors():
        return list(torch.autograd.grad(loss, params, create_graph=True, materialize_grads=True))


@contextmanager
def explain_graph_errors() -> Iterator[None]:
    """Explain torch's error about a graph that ``backward()`` has freed."""
    try:
        yield
    except RuntimeError as error:
        if "a second time" not in str(error):
            raise
        raise RuntimeError("the graph of the loss is used up: return the loss and do not call backward()") from error


def _hessian_rows(grads: Sequence[Tensor], params: Sequence[Tensor]) -> Iterator[tuple[int, Tensor]]:
    """Yield blocks of consecutive Hessian rows, each with the index of its first row."""
    size = sum(p.numel() for p in params)
    for first in range(0, size, ROWS_AT_ONCE):
        count = min(ROWS_AT_ONCE, size - first)
        unit_vectors = torch.zeros(count, size, dtype=params[0].dtype, device=params[0].device)
        unit_vectors.diagonal(offset=first).fill_(1)
        vectors = [
            v.reshape(count, *p.shape).to(p.dtype)
            for v, p in zip(unit_vectors.split(_sizes(params), dim=1), params, strict=True)
        ]
        rows = _vector_products(grads, params, vectors, last=first + count == size, batched=True)
        yield first, torch.cat([row.reshape(count, -1) for row in rows], dim=1)


def _vector_products(
    grads: Sequence[Tensor], params: Sequence[Tensor], vectors: Sequence[Tensor], *, last: bool, batched: bool = False
) -> Sequence[Tensor]:
    """Return ∇²loss v for the given vectors v.

    A gradient that does not depend on the parameters (a linear loss) has no graph and adds nothing.
    """
    curved = [(g, v) for g, v in zip(grads, vectors, strict=True) if g.requires_grad]
    if not curved:
        return [torch.zeros_like(v) for v in vectors]
    outputs, grad_outputs = zip(*curved, strict=True)
    products = torch.autograd.grad(
        outputs, params, grad_outputs, retain_graph=not last, is_grads_batched=batched, allow_unused=True
    )
    return [torch.zeros_like(v) if Hv is None else Hv for Hv, v in zip(products, vectors, strict=True)]


def random_signs(like: Tensor, generator: Generator | None) -> Tensor:
    """Return a tensor of random signs, −1 and 1, in the shape of another one."""
    return torch.randint(0, 2, like.shape, generator=generator, dtype=like.dtype, device=like.device) * 2 - 1


def _check_size(params: Sequence[Tensor], limit: int, why: str) -> None:
    size = sum(_sizes(params))
    if size > limit:
        raise ValueError(f"{size:,} parameters are more than limit = {limit:,}: {why}")


def _sizes(params: Sequence[Tensor]) -> list[int]:
    return [p.numel() for p in params]


def _shaped(flat: Tensor, params: Sequence[Tensor]) -> list[Tensor]:
    return [part.view_as(p) for part, p in zip(flat.split(_sizes(params)), params, strict=True)]


def _detached(grads: Sequence[Tensor]) -> list[Tensor]:
    return [g.detach() for g in grads]
