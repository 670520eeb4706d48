"""SOAP, the peer of EVON's benchmark, against torch's Adam and against numpy."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("vadam_paper", reason="vadam-paper is not installed: pip install ./paper")


@pytest.fixture
def soap(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    sys.modules.pop("benchmarks", None)
    from benchmarks.soap import SOAP

    return SOAP


def gradient(w: Tensor, t: int) -> Tensor:
    return torch.sin(w.detach() + t) + 0.1 * w.detach()


@pytest.mark.parametrize(("shape", "options"), [((7,), {}), ((4, 3), {"max_side": 2}), ((4, 3), {"every": 1000})])
def test_without_a_basis_it_is_adam(soap, shape: tuple[int, ...], options: dict[str, int]) -> None:
    start = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    a, b = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    how = {"lr": 0.01, "betas": (0.9, 0.99)}
    adam, ours = torch.optim.Adam([a], **how), soap([b], **how, **options)
    for t in range(40):
        a.grad, b.grad = gradient(a, t), gradient(b, t)
        adam.step()
        ours.step()
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_against_numpy_with_updates_of_the_basis(soap) -> None:
    alpha, beta1, beta2, every = 0.02, 0.9, 0.95, 3
    p = nn.Parameter(torch.randn(4, 3, generator=torch.Generator().manual_seed(1)))
    opt = soap([p], alpha, (beta1, beta2), every)
    W = p.detach().double().numpy().copy()
    M, V, L, R, QL, QR = np.zeros((4, 3)), np.zeros((4, 3)), np.zeros((4, 4)), np.zeros((3, 3)), np.eye(4), np.eye(3)
    for t in range(1, 31):
        G = gradient(torch.tensor(W), t).numpy()
        p.grad = gradient(p, t)
        opt.step()
        M = beta1 * M + (1 - beta1) * G
        V = beta2 * V + (1 - beta2) * (QL.T @ G @ QR) ** 2
        step = (QL.T @ M @ QR) / (1 - beta1**t) / (np.sqrt(V / (1 - beta2**t)) + 1e-8)
        W = W - alpha * QL @ step @ QR.T
        L, R = beta2 * L + (1 - beta2) * G @ G.T, beta2 * R + (1 - beta2) * G.T @ G
        if t % every == 0:
            QL, QR = np.linalg.qr(L @ QL)[0], np.linalg.qr(R @ QR)[0]
    torch.testing.assert_close(p.detach().double(), torch.tensor(W), rtol=2e-3, atol=2e-3)
