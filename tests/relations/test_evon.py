"""EVON against a reference in numpy written from its equations, and against IVON and exact posteriors. Float64."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vadam
from vadam import rules
from vadam.exact import linear

STEPS = 50
N, LAM = 30.0, 0.6
EXACT = {"rtol": 1e-12, "atol": 1e-12}
Array = np.ndarray


class Reference:
    """EVON of one weight matrix, in numpy, with state re-expressed in the new basis as the equations say."""

    def __init__(
        self, W: Array, *, hess_init: float, sides: tuple[bool, bool] = (True, True), mu0: Array | float = 0.0
    ) -> None:
        rows, columns = W.shape
        self.mu, self.m, self.mu0 = W.copy(), np.zeros_like(W), mu0
        self.s = np.full_like(W, hess_init)
        self.QL, self.QR = np.eye(rows), np.eye(columns)
        self.L, self.R = np.zeros((rows, rows)), np.zeros((columns, columns))
        self.sides, self.t = sides, 0

    def sample(self, eps: Array) -> Array:
        return self.mu + self.QL @ (eps / np.sqrt(N * self.s + LAM)) @ self.QR.T

    def step(
        self, G: Array, eps: Array, *, lr: float, beta1: float, beta2: float, beta: float, every: int, xi: float
    ) -> None:
        self.t += 1
        lam = LAM / N
        h = (self.QL.T @ G @ self.QR) * eps * np.sqrt(N * self.s + LAM)
        self.m = beta1 * self.m + (1 - beta1) * (self.QL.T @ G @ self.QR)  # in the basis, unlike the rule
        correction = 0.5 * (1 - beta2) ** 2 * (self.s - h) ** 2 / (self.s + lam)
        self.s = beta2 * self.s + (1 - beta2) * h + correction
        pull = self.QL.T @ (self.mu - self.mu0) @ self.QR
        step = (self.m / (1 - beta1**self.t) + lam * pull) / (self.s + lam)
        self.mu = self.mu - lr * self.QL @ np.clip(step, -xi, xi) @ self.QR.T
        self.L = beta * self.L + (1 - beta) * G @ G.T
        self.R = beta * self.R + (1 - beta) * G.T @ G
        if self.t % every == 0:
            QL = turned(self.L, self.QL) if self.sides[0] else self.QL
            QR = turned(self.R, self.QR) if self.sides[1] else self.QR
            AL, AR = QL.T @ self.QL, QR.T @ self.QR
            self.m = AL @ self.m @ AR.T
            self.s = np.diag(np.kron(AL, AR) @ np.diag(self.s.flatten()) @ np.kron(AL, AR).T).reshape(self.s.shape)
            self.QL, self.QR = QL, QR


def turned(L: Array, Q: Array) -> Array:
    """Return one step of orthogonal iteration on L with a shift of 1e-3 of its mean eigenvalue."""
    return np.linalg.qr((L + 1e-3 * np.trace(L) / len(L) * np.eye(len(L))) @ Q)[0]


def loss(W: Tensor, t: int) -> Tensor:
    """Return a loss that couples all elements of the matrix, with a term of its own in every step: L and R have full rank."""
    C = torch.randn(W.shape, generator=torch.Generator().manual_seed(t), dtype=W.dtype)
    X = torch.sin(torch.arange(4 * W.shape[1], dtype=W.dtype).view(W.shape[1], 4) * (1 + 0.01 * t))
    Z = torch.cos(torch.arange(3 * W.shape[0], dtype=W.dtype).view(3, W.shape[0]))
    return 0.5 * (Z @ W @ X - 1).square().mean() + 0.1 * W.pow(4).mean() + (C * W).mean()


def start(rows: int, columns: int) -> Tensor:
    return torch.linspace(-1, 1, rows * columns, dtype=torch.float64).view(rows, columns)


@pytest.mark.parametrize(
    ("shape", "max_side", "sides"),
    [((4, 3), 10, (True, True)), ((3, 7), 5, (True, False)), ((1, 6), 10, (False, True)), ((6, 2), 2, (False, True))],
)
def test_evon_step_by_step(shape: tuple[int, int], max_side: int, sides: tuple[bool, bool]) -> None:
    """50 steps with the same noise: samples, means, precisions and bases agree."""
    rates = {"lr": 0.05, "beta1": 0.9, "beta2": 0.95, "beta": 0.9, "every": 8, "xi": 0.7}
    reference = Reference(start(*shape).numpy(), hess_init=0.5, sides=sides, mu0=start(*shape).numpy())
    p = nn.Parameter(start(*shape))
    opt = vadam.EVON(
        [p],
        lr=0.05,
        betas=(0.9, 0.95),
        num_data=N,
        prior_precision=LAM,
        prior="init",
        hess_init=0.5,
        clip_radius=0.7,
        rescale_lr=False,
        basis_beta=0.9,
        basis_every=8,
        max_side=max_side,
        generator=torch.Generator().manual_seed(0),
    )
    for t in range(STEPS):
        before = {name: value.clone() for name, value in opt.state[p].items() if isinstance(value, Tensor)}
        mu = p.detach().clone()
        opt.zero_grad()
        with opt.sampled_params():
            theta = p.detach().clone()
            loss(p, t).backward()
        G = p.grad.clone()
        opt.step()
        turned_back = theta - mu
        if t:
            turned_back = before["QL"].mT @ turned_back if before["QL"].numel() else turned_back
            turned_back = turned_back @ before["QR"] if before["QR"].numel() else turned_back
        eps = (turned_back * torch.as_tensor(N * reference.s + LAM).sqrt()).numpy()
        np.testing.assert_allclose(reference.sample(eps), theta.numpy(), rtol=1e-10, atol=1e-10)
        reference.step(G.numpy(), eps, **rates)
        torch.testing.assert_close(p.detach(), torch.tensor(reference.mu), **EXACT)
        torch.testing.assert_close(opt.state[p]["s"], torch.tensor(reference.s), **EXACT)
        for name, Q, has_basis in (("QL", reference.QL, sides[0]), ("QR", reference.QR, sides[1])):
            if has_basis:
                torch.testing.assert_close(opt.state[p][name], torch.tensor(Q), rtol=1e-9, atol=1e-9)
            else:
                assert not opt.state[p][name].numel()


def test_the_noise_of_evon_is_standard_normal_in_its_basis() -> None:
    """Σ (Q_Lᵀ(θ − μ)Q_R)² × precision over 400 draws of 12 weights: 4,800 squares, mean 1 within five standard errors."""
    p = nn.Parameter(start(4, 3))
    opt = vadam.EVON(
        [p], lr=0.1, betas=(0.9, 0.9), num_data=N, basis_every=1, generator=torch.Generator().manual_seed(0)
    )
    for t in range(20):
        opt.zero_grad()
        with opt.sampled_params():
            loss(p, t).backward()
        opt.step()
    post, mu = opt.posterior(), p.detach().clone()
    squares = []
    for _ in range(400):
        with opt.sampled_params():
            squares.append((post.left["0"].mT @ (p.detach() - mu) @ post.right["0"]) ** 2 * post.precision["0"])
    assert abs(float(torch.stack(squares).mean()) - 1) < 5 * (2 / 4800) ** 0.5
    assert (torch.stack(squares).mean(0) < 2).all()


def test_without_a_basis_evon_is_ivon() -> None:
    """Vectors, and matrices longer than ``max_side`` on both sides, take IVON's steps to the last bit."""
    found = []
    for build, extra in ((vadam.IVON, {}), (vadam.EVON, {"max_side": 2})):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)).double()
        x, y = torch.randn(20, 5, dtype=torch.float64), torch.randn(20, 3, dtype=torch.float64)
        opt = build(
            model.parameters(), num_data=20, backend="plain", generator=torch.Generator().manual_seed(1), **extra
        )
        eps = iter(torch.randn(100, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(2)))
        for _ in range(5):
            means = [p.detach().clone() for p in model.parameters()]
            state = rules.ivon if build is vadam.IVON else rules.evon
            opt._buckets()
            noise = next(eps)
            with torch.no_grad():
                for p in model.parameters():
                    sigma = dict(opt._precisions([p]))[p].rsqrt()
                    p += noise[: p.numel()].view(p.shape) * sigma
            (model(x) - y).square().mean().backward()
            with torch.no_grad():
                for p, mu in zip(model.parameters(), means, strict=True):
                    h = p.grad * (p - mu) * dict(opt._precisions([p]))[p]
                    (bucket,) = opt._buckets([p])
                    names = [name for name in state.State._fields if name != "mu"]
                    old = state.State(mu, **{name: opt.state[p][name] for name in names})
                    args = {
                        k: v
                        for k, v in bucket.rule_args.items()
                        if k in state.update.__kwdefaults__ or k in ARGS[state]
                    }
                    new = state.update(old, p.grad, h, **args)
                    p.copy_(new.mu)
                    opt.state[p].update({name: getattr(new, name) for name in names})
                    p.grad = None
        found.append([p.detach() for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


ARGS = {
    rules.ivon: {"alpha", "beta1", "beta2", "N", "lam"},
    rules.evon: {"alpha", "beta1", "beta2", "beta", "every", "N", "lam"},
}


def test_evon_finds_a_correlated_posterior() -> None:
    """Linear regression with correlated inputs: closer to the posterior than any Gaussian without correlations can be.

    The best of those in KL(q‖p) has the posterior's mean and the diagonal of its precision: ½ (Σ log Pᵢᵢ − log det P).
    """
    g = torch.Generator().manual_seed(0)
    n, D, noise = 200, 6, 4.0
    mix = torch.randn(D, D, generator=g, dtype=torch.float64)
    X = torch.randn(n, D, generator=g, dtype=torch.float64) @ mix
    y = X @ torch.randn(D, generator=g, dtype=torch.float64) + noise**-0.5 * torch.randn(
        n, generator=g, dtype=torch.float64
    )
    exact = linear.fit(X, y, prior_precision=1.0, noise_precision=noise).posterior()
    best_diagonal = 0.5 * (exact.precision.diagonal().log().sum() - torch.logdet(exact.precision))
    model = nn.Linear(D, 1, bias=False).double()
    opt = vadam.EVON(
        model.parameters(),
        lr=0.1,
        betas=(0.9, 0.999),
        num_data=n,
        hess_init=1.0,
        basis_beta=0.99,
        clip_radius=float("inf"),
        samples=2,
        generator=g,
    )
    steps = 3000
    for t in range(steps):
        rows = torch.randperm(n, generator=g)[:20]
        opt.param_groups[0]["lr"] = 0.1 * (1 - t / steps)

        def closure(rows: Tensor = rows) -> Tensor:
            opt.zero_grad()
            value = 0.5 * noise * (model(X[rows]).squeeze(1) - y[rows]).square().mean()
            value.backward()
            return value

        opt.step(closure)
    found = opt.posterior(model).full().kl_to(exact)
    assert found < 0.5 * best_diagonal, (found, best_diagonal)


def test_autocast_does_not_round_the_basis() -> None:
    """A forward pass under autocast draws the sample; its rotations stay in float32."""
    found = []
    for enabled in (False, True):
        torch.manual_seed(0)
        model = nn.Linear(5, 4)
        opt = vadam.EVON(model.parameters(), num_data=20, basis_every=1, generator=torch.Generator().manual_seed(0))
        for t in range(3):
            opt.zero_grad()
            with opt.sampled_params():
                (model(torch.ones(1, 5) * t) ** 2).sum().backward()
            opt.step()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled), opt.sampled_params():
            found.append(model.weight.detach().clone())
    assert torch.equal(*found)
