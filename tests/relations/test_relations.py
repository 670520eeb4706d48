"""Relations between the algorithms, and to torch's own: in this family the relations are the paper. Float64, 50 steps, 1e-12."""

import pytest
import torch
from torch import Tensor, nn

import vadam
from vadam import rules

STEPS = 50
N, LAM = 30.0, 0.6
SHAPE = (4, 3)
EXACT = {"rtol": 1e-12, "atol": 1e-12}


def gradient(mu: Tensor, t: int) -> Tensor:
    """Return a smooth, deterministic, time-dependent gradient field."""
    grid = torch.arange(mu.numel(), dtype=mu.dtype).view(mu.shape)
    return mu - torch.sin(grid + 0.3 * t) + 0.1 * mu**3


def start() -> Tensor:
    return torch.linspace(-1, 1, 12, dtype=torch.float64).view(SHAPE)


def torch_run(build, **kwargs) -> list[Tensor]:
    p = nn.Parameter(start())
    opt = build([p], **kwargs)
    path = []
    for t in range(STEPS):
        p.grad = gradient(p.detach(), t)
        opt.step()
        path.append(p.detach().clone())
    return path


def rule_run(rule, state, *, pull: bool, lam: float, **rates) -> list[Tensor]:
    """Run the rule without noise; ``pull=False`` cancels the prior's pull λ̃μ, which the rule adds to the gradient."""
    path = []
    for t in range(STEPS):
        g = gradient(state.mu, t)
        seen = g if pull else g - lam / N * state.mu
        rule_args = {"N": N} if rule is rules.vadagrad else {"N": N, "lam": lam}
        state = rule.update(state, seen, g * g, **rule_args, **rates)
        path.append(state.mu)
    return path


def test_vadam_is_adam() -> None:
    state = rules.vadam.init(start(), init_precision=LAM, N=N, lam=LAM)
    ours = rule_run(rules.vadam, state, pull=False, lam=LAM, alpha=0.05, gamma1=0.9, gamma2=0.99)
    theirs = torch_run(torch.optim.Adam, lr=0.05, betas=(0.9, 0.99), eps=LAM / N)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, **EXACT)


@pytest.mark.parametrize("init", [LAM, 5.0, 3000.0])
def test_vadams_steps_do_not_depend_on_its_start(init: float) -> None:
    """``init_precision`` sets the noise, not the step: without noise Vadam is Adam from any start, and s + s₀ is the paper's s."""
    state = rules.vadam.init(start(), init_precision=init, N=N, lam=LAM)
    paper = torch.full(SHAPE, (init - LAM) / N, dtype=torch.float64)
    theirs = torch_run(torch.optim.Adam, lr=0.05, betas=(0.9, 0.99), eps=LAM / N)
    for t in range(STEPS):
        g = gradient(state.mu, t)
        paper = 0.99 * paper + 0.01 * g**2
        rule_args = {"alpha": 0.05, "gamma1": 0.9, "gamma2": 0.99, "N": N, "lam": LAM}
        state = rules.vadam.update(state, g - LAM / N * state.mu, g**2, **rule_args)
        torch.testing.assert_close(state.mu, theirs[t], **EXACT)
        torch.testing.assert_close(rules.vadam.precision(state, N=N, lam=LAM), N * paper + LAM, rtol=1e-12, atol=0)


def test_vprop_is_rmsprop() -> None:
    state = rules.vprop.init(start(), init_precision=LAM, N=N, lam=LAM)
    ours = rule_run(rules.vprop, state, pull=False, lam=LAM, alpha=0.05, beta=0.01)
    theirs = torch_run(torch.optim.RMSprop, lr=0.05, alpha=0.99, eps=LAM / N)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, **EXACT)


def test_vadagrad_is_adagrad() -> None:
    state = rules.vadagrad.init(start(), init_precision=3.0, N=1.0)
    ours = rule_run(rules.vadagrad, state, pull=True, lam=0.0, alpha=0.05, beta=1.0)
    theirs = torch_run(torch.optim.Adagrad, lr=0.05, initial_accumulator_value=3.0 / 1.0, eps=0.0)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, **EXACT)


FRONT_ENDS = {
    "Vadam": (
        lambda p: vadam.Vadam(p, lr=0.05, betas=(0.9, 0.99), num_data=N, prior_precision=LAM),
        lambda mu: rules.vadam.init(mu, init_precision=LAM, N=N, lam=LAM),
        (rules.vadam, {"alpha": 0.05, "gamma1": 0.9, "gamma2": 0.99}),
    ),
    "Vprop": (
        lambda p: vadam.Vprop(p, lr=0.05, beta=0.99, num_data=N, prior_precision=LAM),
        lambda mu: rules.vprop.init(mu, init_precision=LAM, N=N, lam=LAM),
        (rules.vprop, {"alpha": 0.05, "beta": 0.01}),
    ),
    "VadaGrad": (
        lambda p: vadam.VadaGrad(p, lr=0.05, beta=0.7, init_precision=3.0, num_data=N),
        lambda mu: rules.vadagrad.init(mu, init_precision=3.0, N=N),
        (rules.vadagrad, {"alpha": 0.05, "beta": 0.7}),
    ),
}


@pytest.mark.parametrize("name", FRONT_ENDS)
def test_front_ends_follow_their_rule(name: str) -> None:
    """Without noise (a deterministic group) an optimizer is its rule, and with that torch's Adam, RMSprop, Adagrad."""
    build, init, (rule, rates) = FRONT_ENDS[name]
    p = nn.Parameter(start())
    opt = build([{"params": [p], "deterministic": True}])
    for t, expected in enumerate(rule_run(rule, init(start()), pull=True, lam=LAM, **rates)):
        p.grad = gradient(p.detach(), t)
        opt.step()
        torch.testing.assert_close(p.detach(), expected, **EXACT)


def test_von_is_natural_gradient_vi() -> None:
    """VON in (μ, s) is NGVI (Eq. 4, 5) in (μ, σ⁻²), with ∇_μ𝓛 = −(Nĝ + λμ) and ∇_σ²𝓛 = −½(Nĥ + λ) + ½σ⁻²."""
    beta = 0.1
    state = rules.von.init(start(), init_precision=2.0, N=N, lam=LAM)
    mu, precision = start(), torch.full(SHAPE, 2.0, dtype=torch.float64)
    for t in range(STEPS):
        g, h = gradient(state.mu, t), 1 + 0.5 * torch.cos(state.mu + t)
        grad_mu = -(N * gradient(mu, t) + LAM * mu)
        grad_var = -0.5 * (N * (1 + 0.5 * torch.cos(mu + t)) + LAM) + 0.5 * precision
        precision = precision - 2 * beta * grad_var
        mu = mu + beta * grad_mu / precision
        state = rules.von.update(state, g, h, alpha=beta, beta=beta, N=N, lam=LAM)
        torch.testing.assert_close(state.mu, mu, **EXACT)
        torch.testing.assert_close(rules.von.precision(state, N=N, lam=LAM), precision, rtol=1e-12, atol=1e-12)


def test_natural_momentum_is_the_papers_form() -> None:
    """Eq. 17: μ₊ = μ − ᾱ(ĝ + λ̃μ)/(s₊ + λ̃) + γ̄ (s + λ̃)/(s₊ + λ̃) ∘ (μ − μ₋)."""
    alpha, beta, gamma, pull = 0.02, 0.05, 0.8, LAM / N
    state = rules.natural_momentum.init(start(), init_precision=2.0, N=N, lam=LAM)
    mu, before, s = start(), start(), state.s
    for t in range(STEPS):
        g, h = gradient(mu, t), 1 + 0.5 * torch.cos(mu + t)
        s_next = (1 - beta) * s + beta * h
        step = -alpha * (g + pull * mu) / (s_next + pull) + gamma * (s + pull) / (s_next + pull) * (mu - before)
        mu, before, s = mu + step, mu, s_next
        rule_args = {"alpha": alpha, "beta": beta, "gamma": gamma, "N": N, "lam": LAM}
        state = rules.natural_momentum.update(
            state, gradient(state.mu, t), 1 + 0.5 * torch.cos(state.mu + t), **rule_args
        )
        torch.testing.assert_close(state.mu, mu, **EXACT)
        torch.testing.assert_close(state.s, s, **EXACT)


def test_momentum_without_momentum_is_von() -> None:
    plain = rules.von.init(start(), init_precision=2.0, N=N, lam=LAM)
    heavy = rules.natural_momentum.init(start(), init_precision=2.0, N=N, lam=LAM)
    for t in range(STEPS):
        h = 1 + 0.5 * torch.cos(plain.mu + t)
        rule_args = {"alpha": 0.1, "beta": 0.05, "N": N, "lam": LAM, "damping": 0.01}
        heavy = rules.natural_momentum.update(heavy, gradient(heavy.mu, t), h, gamma=0.0, **rule_args)
        plain = rules.von.update(plain, gradient(plain.mu, t), h, **rule_args)
        torch.testing.assert_close(heavy.mu, plain.mu, **EXACT)


def test_figure_1_is_the_heavy_ball_form() -> None:
    """App. E: Adam's update is an adaptive heavy ball with ᾱ_t = α(1−γ₁)/(1−γ₁ᵗ), γ̄_t = γ₁(1−γ₁ᵗ⁻¹)/(1−γ₁ᵗ); so is Vadam's."""
    alpha, gamma1, gamma2, pull = 0.05, 0.9, 0.99, LAM / N
    state = rules.vadam.init(start(), init_precision=LAM, N=N, lam=LAM)
    mu, before, s, root = (
        start(),
        start(),
        torch.zeros(SHAPE, dtype=torch.float64),
        torch.zeros(SHAPE, dtype=torch.float64),
    )
    for t in range(1, STEPS + 1):
        g = gradient(mu, t)
        s = gamma2 * s + (1 - gamma2) * g**2
        root_next = (s / (1 - gamma2**t)).sqrt()
        alpha_t = alpha * (1 - gamma1) / (1 - gamma1**t)
        gamma_t = gamma1 * (1 - gamma1 ** (t - 1)) / (1 - gamma1**t)
        step = -alpha_t * (g + pull * mu) / (root_next + pull) + gamma_t * (root + pull) / (root_next + pull) * (
            mu - before
        )
        mu, before, root = mu + step, mu, root_next
        g = gradient(state.mu, t)
        state = rules.vadam.update(state, g, g**2, alpha=alpha, gamma1=gamma1, gamma2=gamma2, N=N, lam=LAM)
        torch.testing.assert_close(state.mu, mu, **EXACT)


RULES_WITH_TAU = {
    "von": (rules.von, {"alpha": 0.1, "beta": 0.05}),
    "natural_momentum": (rules.natural_momentum, {"alpha": 0.05, "beta": 0.05, "gamma": 0.5}),
    "exact_momentum": (rules.exact_momentum, {"alpha": 0.05, "beta": 0.05, "gamma": 0.5}),
    "vprop": (rules.vprop, {"alpha": 0.1, "beta": 0.05}),
    "vprop_momentum": (rules.vprop_momentum, {"alpha": 0.05, "beta": 0.05, "gamma": 0.5}),
    "vadam": (rules.vadam, {"alpha": 0.1, "gamma1": 0.9, "gamma2": 0.95}),
}


@pytest.mark.parametrize("name", RULES_WITH_TAU)
def test_tau_one_is_the_plain_rule(name: str) -> None:
    rule, rates = RULES_WITH_TAU[name]
    plain = tempered = rule.init(start(), init_precision=2.0, N=N, lam=LAM)
    for t in range(STEPS):
        g = gradient(plain.mu, t)
        plain = rule.update(plain, g, g**2, N=N, lam=LAM, **rates)
        tempered = rule.update(tempered, g, g**2, N=N, lam=LAM, tau=1.0, **rates)
        assert all(torch.equal(torch.as_tensor(a), torch.as_tensor(b)) for a, b in zip(plain, tempered, strict=True))


@pytest.mark.parametrize("name", ["von", "vprop", "vadam"])
def test_tau_zero_is_variational_optimisation(name: str) -> None:
    """§5 at τ = 0: no prior anywhere, s a sum instead of an average, σ⁻² = N s."""
    rule, rates = RULES_WITH_TAU[name]
    state = rule.init(start(), init_precision=2.0, N=N, lam=LAM)
    s0 = (2.0 - LAM) / N
    mu, s = start(), torch.full(SHAPE, s0, dtype=torch.float64)
    m = torch.zeros(SHAPE, dtype=torch.float64)
    for t in range(1, STEPS + 1):
        g = gradient(mu, t)
        s = s + 0.05 * g**2
        if name == "von":
            mu = mu - 0.1 * g / s
        elif name == "vprop":
            mu = mu - 0.1 * g / s.sqrt()
        else:
            m = 0.9 * m + 0.1 * g
            mu = mu - 0.1 * (m / (1 - 0.9**t)) / ((s - s0) / (1 - 0.95**t)).sqrt()
        g = gradient(state.mu, t)
        letter = {"kappa": 1.0} if name == "vprop" else {}
        state = rule.update(state, g, g**2, N=N, lam=LAM, tau=0.0, **letter, **rates)
        torch.testing.assert_close(state.mu, mu, **EXACT)
        torch.testing.assert_close(rule.precision(state, N=N, lam=LAM, tau=0.0), N * s, rtol=1e-12, atol=0)


def test_vprop_at_tau_zero_is_vadagrad() -> None:
    vprop = rules.vprop.init(start(), init_precision=2.0 + LAM, N=1.0, lam=LAM)
    vadagrad = rules.vadagrad.init(start(), init_precision=2.0, N=1.0)
    for t in range(STEPS):
        g = gradient(vprop.mu, t)
        vprop = rules.vprop.update(vprop, g, g**2, alpha=0.1, beta=0.3, N=1.0, lam=LAM, tau=0.0, kappa=1.0)
        vadagrad = rules.vadagrad.update(vadagrad, gradient(vadagrad.mu, t), g**2, alpha=0.1, beta=0.3, N=1.0)
        torch.testing.assert_close(vprop.mu, vadagrad.mu, **EXACT)
        torch.testing.assert_close(vprop.s + vprop.s0, vadagrad.s, **EXACT)


STACKED = {
    **RULES_WITH_TAU,
    "vadagrad": (rules.vadagrad, {"alpha": 0.1, "beta": 0.3}),
    "bbvi": (rules.bbvi, {"alpha": 0.05, "gamma1": 0.9, "gamma2": 0.99}),
    "ivon": (rules.ivon, {"alpha": 0.05, "beta1": 0.9, "beta2": 0.95, "xi": 0.5}),
}


@pytest.mark.parametrize("name", STACKED)
def test_a_stack_is_its_members(name: str) -> None:
    """[E, ...] with per-member rates, λ and N equals E solo runs, bit for bit."""
    rule, rates = STACKED[name]
    E = 5
    scale = torch.linspace(0.5, 2.0, E, dtype=torch.float64)
    rule_args = [{k: float(v * scale[e]) if k == "alpha" else v for k, v in rates.items()} for e in range(E)]
    for e in range(E):
        rule_args[e] |= {"N": 10.0 + 7 * e} | ({} if name == "vadagrad" else {"lam": 0.2 + 0.3 * e})
    stacked = {
        k: torch.tensor([x[k] for x in rule_args], dtype=torch.float64).view(E, 1, 1) for k in rule_args[0] if k != "xi"
    }
    stacked |= {"xi": rates["xi"]} if "xi" in rates else {}
    init_keys = ("N",) if name == "vadagrad" else ("N", "lam")
    means = torch.stack([start() + 0.1 * e for e in range(E)])
    solo = [rule.init(means[e], init_precision=3.0 + e, **{k: rule_args[e][k] for k in init_keys}) for e in range(E)]
    start_precision = torch.arange(3.0, 3.0 + E, dtype=torch.float64).view(E, 1, 1)
    stack = rule.init(means, init_precision=start_precision, **{k: stacked[k] for k in init_keys})
    for t in range(STEPS):
        h = lambda g: g**2 if name not in ("ivon", "bbvi") else g * torch.cos(g)  # noqa: E731
        solo = [rule.update(s, gradient(s.mu, t), h(gradient(s.mu, t)), **rule_args[e]) for e, s in enumerate(solo)]
        g = torch.stack([gradient(m, t) for m in stack.mu])
        stack = rule.update(stack, g, h(g), **stacked)
        for e in range(E):
            torch.testing.assert_close(stack.mu[e], solo[e].mu, rtol=1e-13, atol=1e-15)
    precision_keys = {k: stacked[k] for k in init_keys}
    for e in range(E):
        ours = rule.precision(stack, **precision_keys)[e]
        torch.testing.assert_close(
            ours, rule.precision(solo[e], **{k: rule_args[e][k] for k in init_keys}), rtol=1e-12, atol=0
        )
