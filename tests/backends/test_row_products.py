"""One row for each of many matrices: native loops against torch, on any number of threads."""

from __future__ import annotations

import pytest
import torch

from vadam.backends.row_products import rows_times_matrices


@pytest.mark.parametrize("shape", [(64, 40, 784), (9, 1, 7), (3, 5, 1), (1, 6, 33)])
@pytest.mark.parametrize("shared", [True, False])
def test_products(shape: tuple[int, int, int], shared: bool) -> None:
    n, o, i = shape
    W, x = torch.randn(n, o, i), torch.randn(1 if shared else n, 1, i)
    expected = (x.double() @ W.double().mT).float()
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(rows_times_matrices(x, W))
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(results[0], expected, rtol=1e-5, atol=1e-4)
    assert all(torch.equal(results[0], other) for other in results[1:])


def test_what_native_loops_do_not_take() -> None:
    W, x = torch.randn(5, 7, 6), torch.randn(5, 1, 6)
    for weight, rows in (
        (W.double(), x.double()),
        (W.mT.contiguous().mT, x),
        (W[:, ::2], x),
        (W.bfloat16(), x.bfloat16()),
    ):
        expected = (rows.double() @ weight.double().mT).to(rows.dtype)
        loose = 2e-2 if rows.dtype is torch.bfloat16 else 1e-5
        torch.testing.assert_close(rows_times_matrices(rows, weight), expected, rtol=loose, atol=loose)
