"""Priors with a mean: closed forms, yesterday's posterior as prior, learned precision, and what the state keeps."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

import vadam
from specs import BY_NAME, SPECS, Problem, Spec, same, snapshot
from vadam.gaussian import MeanFieldGaussian

WITH_PRIOR = [spec for spec in SPECS if spec.has_prior]


def regression(n: int = 60, d: int = 3, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    q, _ = torch.linalg.qr(torch.randn(n, d, generator=g, dtype=torch.float64))
    x = q * torch.linspace(3, 9, d, dtype=torch.float64)  # orthogonal columns: the exact posterior is mean-field
    return x, x @ torch.tensor([[1.0], [-2.0], [0.5]], dtype=torch.float64) + torch.randn(n, 1, generator=g).double()


def trained_by_von(x: torch.Tensor, y: torch.Tensor, steps: int = 1, **arguments) -> MeanFieldGaussian:
    """Return VON's posterior after full-batch steps: one Newton step with beta=0 and lr=1 is exact on a quadratic."""
    model = nn.Linear(x.shape[1], 1, bias=False, dtype=torch.float64)
    nn.init.constant_(model.weight, 0.3)
    opt = vadam.VON(
        model.named_parameters(),
        lr=1.0,
        beta=0.0,
        num_data=len(x),
        curvature="exact",
        samples=2,
        antithetic=True,
        step_bound=math.inf,
        **arguments,
    )
    for _ in range(steps):
        opt.step(lambda: 0.5 * (model(x) - y).square().mean())
    return opt.posterior(model)


def exact(x, y, mean, precision):
    """Return the posterior of linear regression with unit noise for a Gaussian prior, the columns of x being orthogonal."""
    total = (x * x).sum(0) + precision
    return ((x.T @ y).squeeze(1) + precision * mean) / total, total


@pytest.mark.parametrize("mean", [0.0, 2.5])
def test_a_prior_with_a_number_as_mean_is_exact_on_linear_regression(mean):
    x, y = regression()
    post = trained_by_von(x, y, prior=mean, prior_precision=4.0)
    mu, precision = exact(x, y, torch.full((3,), mean, dtype=torch.float64), 4.0)
    torch.testing.assert_close(post.mean["weight"][0], mu, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(post.precision["weight"][0], precision, rtol=1e-8, atol=1e-8)


def test_init_takes_the_weights_at_construction():
    x, y = regression()
    post = trained_by_von(x, y, prior="init", prior_precision=4.0)
    mu, precision = exact(x, y, torch.full((3,), 0.3, dtype=torch.float64), 4.0)
    torch.testing.assert_close(post.mean["weight"][0], mu, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(post.precision["weight"][0], precision, rtol=1e-8, atol=1e-8)
    assert torch.equal(post.prior_mean["weight"], torch.full((1, 3), 0.3, dtype=torch.float64))


@pytest.mark.parametrize("temperature", [1.0, 0.25])
def test_a_prior_per_weight_is_exact_on_linear_regression(temperature):
    x, y = regression()
    mean = torch.tensor([[1.0, -1.0, 3.0]], dtype=torch.float64)
    lam = torch.tensor([[0.5, 4.0, 20.0]], dtype=torch.float64)
    prior = MeanFieldGaussian({"weight": mean}, {"weight": lam})
    post = trained_by_von(x, y, prior=prior, temperature=temperature)
    mu, precision = exact(x, y, mean[0], lam[0])
    torch.testing.assert_close(post.mean["weight"][0], mu, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(post.precision["weight"][0], precision / temperature, rtol=1e-8, atol=1e-8)
    assert torch.equal(post.prior_precision["weight"], lam)


@pytest.mark.parametrize("temperature", [1.0, 0.25])
def test_two_tasks_one_after_the_other_equal_the_joint_posterior(temperature):
    x, y = regression(n=80)
    q, _ = torch.linalg.qr(x[:40])
    first, second = q * 5, torch.linalg.qr(x[40:])[0] * 7
    yesterday = trained_by_von(first, y[:40], prior_precision=2.0, temperature=temperature)
    today = trained_by_von(second, y[40:], prior=yesterday, temperature=temperature)
    mu, precision = exact(torch.cat([first, second]), y, torch.zeros(3, dtype=torch.float64), 2.0)
    torch.testing.assert_close(today.mean["weight"][0], mu, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(today.precision["weight"][0], precision / temperature, rtol=1e-8, atol=1e-8)
    wider = yesterday.tempered(4.0)
    opt = vadam.VON(nn.Linear(3, 1, bias=False).double().named_parameters(), num_data=40, prior=wider)
    torch.testing.assert_close(
        opt.state[opt.param_groups[0]["params"][0]]["prior_precision"], wider.precision["weight"]
    )


@pytest.mark.parametrize("temperature", [1.0, 0.1, 0.25])
def test_a_tempered_posterior_is_a_wider_prior_at_every_temperature(temperature, tmp_path):
    """``prior=post.tempered(4)`` forgets: at a temperature of 0.1 it had been 2.5 times narrower than ``prior=post``."""
    x, y = regression()
    yesterday = trained_by_von(x, y, prior_precision=2.0, temperature=temperature)
    vadam.save(tmp_path / "tempered", yesterday.tempered(2.0).tempered(2.0))

    def precision_of_prior(post: MeanFieldGaussian) -> torch.Tensor:
        module = nn.Linear(3, 1, bias=False, dtype=torch.float64)
        opt = vadam.Vadam(module.named_parameters(), num_data=40, prior=post, temperature=temperature)
        return opt.state[module.weight]["prior_precision"]

    remembered = precision_of_prior(yesterday)
    for wider in (yesterday.tempered(4.0), vadam.load(tmp_path / "tempered").posterior):
        torch.testing.assert_close(precision_of_prior(wider), remembered / 4)


def test_full_von_takes_a_prior_per_weight():
    x, y = regression()
    x = x + 0.1 * x.roll(1, 1)  # correlated columns
    mean = torch.tensor([[1.0, -1.0, 3.0]], dtype=torch.float64)
    lam = torch.tensor([[0.5, 4.0, 20.0]], dtype=torch.float64)
    model = nn.Linear(3, 1, bias=False, dtype=torch.float64)
    prior = MeanFieldGaussian({"weight": mean}, {"weight": lam})
    opt = vadam.FullVON(
        model.named_parameters(), lr=1.0, beta=0.0, num_data=len(x), prior=prior, samples=2, antithetic=True
    )
    opt.step(lambda: 0.5 * (model(x) - y).square().mean())
    post = opt.posterior(model)
    precision = x.T @ x + lam[0].diag()
    torch.testing.assert_close(post.precision, precision, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(
        post.mean, torch.linalg.solve(precision, (x.T @ y)[:, 0] + lam[0] * mean[0]), rtol=1e-8, atol=1e-8
    )


@pytest.mark.parametrize("spec", WITH_PRIOR, ids=str)
def test_without_data_the_mean_moves_to_the_priors(spec: Spec):
    """With a constant loss the gradient is zero, so every rule must pull each weight towards the mean of its prior."""
    torch.manual_seed(0)
    p = nn.Parameter(torch.randn(6, dtype=torch.float64))
    goal = torch.tensor([1.0, -1.0, 2.0, 0.0, 0.5, 3.0], dtype=torch.float64)
    prior = MeanFieldGaussian({"p": goal}, {"p": torch.full_like(goal, 5.0)})
    if not spec.elementwise:
        with pytest.raises(ValueError, match=r'one precision for all weights of a group: give a number or "init"'):
            spec.make([("p", p)], prior=prior)
        p, goal, prior = (
            nn.Parameter(torch.randn(3, 2, dtype=torch.float64)),
            torch.tensor(1.0, dtype=torch.float64),
            1.0,
        )
    kwargs = {k: v for k, v in spec.kwargs.items() if k not in ("init_precision", "prior_precision")}
    model = nn.Module()
    model.p = p
    opt = spec.build([("p", p)], **{**kwargs, "lr": 0.02 if "hess_init" not in spec.kwargs else 0.1}, prior=prior)
    if spec.needs_attach:
        pytest.skip("records curvature in layers; its rule is VON's")

    def closure():
        opt.zero_grad()
        loss = 0.0 * (p * p).sum()
        if spec.backward:
            loss.backward()
        return loss

    before = (p.detach() - goal).abs()
    for _ in range(300):
        opt.step(closure)
    after = (p.detach() - goal).abs()
    assert (after <= before).all()
    assert after.sum() < 0.9 * before.sum()


STARTS_AT_PRIOR = [
    spec for spec in SPECS if spec.has_prior and "init_precision" in {a.name for a in spec.build.rule.ARGUMENTS}
]


@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("spec", [spec for spec in STARTS_AT_PRIOR if spec.mean_field], ids=str)
def test_training_starts_at_the_precisions_of_an_earlier_posterior(spec, temperature):
    model = nn.Linear(3, 2)
    precision = {name: 5 + torch.rand_like(p) for name, p in model.named_parameters()}
    earlier = MeanFieldGaussian({name: torch.zeros_like(x) for name, x in precision.items()}, precision)
    given = {name: value for name, value in spec.kwargs.items() if name not in ("init_precision", "prior_precision")}
    opt = spec.build(model.named_parameters(), **{**given, "prior": earlier, "temperature": temperature})
    for name, start in (opt.attach(model) if spec.needs_attach else opt).posterior(model).precision.items():
        torch.testing.assert_close(start, precision[name] / temperature, rtol=1e-5, atol=0)


@pytest.mark.parametrize("name", ["Vadam", "VOGN", "IVON", "BBVI", "VON"])
@pytest.mark.parametrize("kind", ["init", "posterior"])
def test_the_prior_is_in_checkpoints_and_resuming_is_bit_exact(name, kind):
    spec = BY_NAME[name]
    problem = Problem()
    start = problem.weights()
    kwargs = {k: v for k, v in spec.kwargs.items() if kind == "init" or k not in ("init_precision", "prior_precision")}
    mean = {n: 0.5 + p.detach() for n, p in problem.model.named_parameters()}
    prior = (
        "init" if kind == "init" else MeanFieldGaussian(mean, {n: torch.full_like(x, 30.0) for n, x in mean.items()})
    )

    def build(**changes):
        opt = spec.build(
            problem.model.named_parameters(), **{**kwargs, **changes}, generator=torch.Generator().manual_seed(1)
        )
        return opt.attach(problem.model) if spec.needs_attach else opt

    opt = build(prior=prior)
    before_any_step = copy.deepcopy(opt.state_dict())
    for _ in range(3):
        problem.step(opt, spec)
    saved, weights = copy.deepcopy(opt.state_dict()), problem.weights()
    for _ in range(3):
        problem.step(opt, spec)
    expected = problem.weights(), snapshot(opt)

    for p, w in zip(problem.model.parameters(), weights, strict=True):
        p.data.copy_(w)
    opt.detach()
    resumed = build()  # a prior of mean zero: the checkpoint brings the right one
    resumed.load_state_dict(saved)
    for _ in range(3):
        problem.step(resumed, spec)
    assert same(problem.weights(), expected[0])
    assert same(snapshot(resumed), expected[1])
    resumed.load_state_dict(before_any_step)
    for p, w in zip(problem.model.parameters(), start, strict=True):
        assert torch.equal(resumed.state[p]["prior_mean"], w + (0.5 if kind == "posterior" else 0.0))


@pytest.mark.parametrize("backend", ["plain", "native"])
def test_backends_agree_on_a_prior_per_weight(backend):
    torch.manual_seed(0)
    model, reference = nn.Linear(7, 5), nn.Linear(7, 5).double()
    reference.load_state_dict({k: v.double() for k, v in model.state_dict().items()})
    x = torch.randn(20, 7)
    finals = []
    for net, inputs, kind in ((model, x, backend), (reference, x.double(), "plain")):
        mean = {n: torch.full_like(p, 0.7).detach() for n, p in net.named_parameters()}
        lam = {n: torch.linspace(1e9, 2e9, p.numel(), dtype=p.dtype).view_as(p) for n, p in net.named_parameters()}
        opt = vadam.Vadam(
            net.named_parameters(), lr=0.01, num_data=1e9, prior=MeanFieldGaussian(mean, lam), backend=kind
        )
        for _ in range(20):

            def closure(opt=opt, net=net, inputs=inputs):
                opt.zero_grad()
                loss = net(inputs).square().mean()
                loss.backward()
                return loss

            opt.step(closure)
        finals.append([p.detach().double() for p in net.parameters()])
    for a, b in zip(*finals, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)  # the precision is 1e9, so the noise is below 1e-4


BAD = {
    "missing name": ({"weight": 1}, {}, "the posterior has no parameter 'bias'"),
    "shape": ({"weight": 2, "bias": 1}, {}, "'weight' has shape \\(2,\\), but the parameter has shape \\(1, 3\\)"),
    "with prior_precision": ({"weight": 1, "bias": 1}, {"prior_precision": 3.0}, "prior_precision=3.0 contradicts"),
    "with init_precision": ({"weight": 1, "bias": 1}, {"init_precision": 3.0}, "init_precision=3.0 contradicts"),
    "learned": ({"weight": 1, "bias": 1}, {"learn_prior_every": 5}, "learn_prior_every=5 contradicts"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_posterior_that_does_not_fit_is_refused(case):
    sizes, arguments, message = BAD[case]
    model = nn.Linear(3, 1)
    shapes = {"weight": [(1, 3), (2,)], "bias": [(1,)]}
    mean = {name: torch.zeros(shapes[name][k - 1]) for name, k in sizes.items()}
    prior = MeanFieldGaussian(mean, {name: torch.ones_like(x) for name, x in mean.items()})
    with pytest.raises(ValueError, match=message):
        vadam.Vadam(model.named_parameters(), num_data=10, prior=prior, **arguments)


def test_parameters_without_names_are_matched_by_their_order():
    model = nn.Linear(3, 1)
    mean = {"0": torch.zeros(1, 3), "1": torch.ones(1)}
    prior = MeanFieldGaussian(mean, {name: torch.full_like(x, 7.0) for name, x in mean.items()})
    opt = vadam.Vadam(model.parameters(), num_data=10, prior=prior)
    assert torch.equal(opt.state[model.bias]["prior_mean"], torch.ones(1))
    with pytest.raises(ValueError, match=r"pass model.named_parameters\(\)"):
        vadam.Vadam([*model.parameters(), nn.Parameter(torch.zeros(2))], num_data=10, prior=prior)


def test_parameters_without_names_are_refused_where_some_of_the_posterior_would_be_left_over():
    """The weights of a layer that is frozen now would be the prior of the next layer, if their shapes are equal."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    earlier = vadam.Vadam(model.named_parameters(), num_data=10).posterior()
    model[0].requires_grad_(False)
    trained = [p for p in model.parameters() if p.requires_grad]
    with pytest.raises(
        ValueError, match=r"has 4 sampled parameters, but the optimizer has 2, .* pass model.named_param"
    ):
        vadam.Vadam(trained, num_data=10, prior=earlier)
    assert torch.equal(
        vadam.Vadam(model.parameters(), num_data=10, prior=earlier).state[model[1].weight]["prior_mean"],
        earlier.mean["1.weight"],
    )


def test_a_group_with_another_prior_takes_no_part_of_the_posterior_by_order():
    body, head = nn.Linear(3, 3), nn.Linear(3, 3)
    earlier = vadam.Vadam(body.parameters(), num_data=10).posterior(body)
    groups = [{"params": [*head.parameters()]}, {"params": [*body.parameters()], "prior": earlier}]
    opt = vadam.Vadam(groups, num_data=10)
    assert torch.equal(opt.state[body.weight]["prior_mean"], body.weight)


def test_the_groups_of_another_optimizer_bring_no_posterior():
    model = nn.Linear(3, 1)
    earlier = vadam.Vadam(model.named_parameters(), num_data=10).posterior()
    opt = vadam.Vadam(model.named_parameters(), num_data=10, prior=earlier)
    with pytest.raises(ValueError, match=r"prior must be a number, .* got 'posterior'"):
        vadam.Vadam(opt.param_groups, num_data=10)


def test_a_point_of_an_earlier_posterior_is_no_prior_of_a_weight_that_is_sampled_now():
    """The precision would be that of the default prior: a backbone that was frozen for the first task would start at σ = 1."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    backbone, head = model
    backbone.requires_grad_(False)
    earlier = vadam.Vadam(model.named_parameters(), num_data=10).posterior()
    assert set(earlier.point) == {"0.weight", "0.bias"}
    still_frozen = vadam.Vadam(model.named_parameters(), num_data=10, prior=earlier)
    assert set(still_frozen.posterior().mean) == {"1.weight", "1.bias"}
    backbone.requires_grad_(True)
    with pytest.raises(ValueError, match=r"'0\.weight' is a point of the posterior"):
        vadam.Vadam(model.named_parameters(), num_data=10, prior=earlier)
    named = [*model.named_parameters()]
    known = {"params": named[2:], "prior": earlier}
    for settings in ({"prior": "init", "prior_precision": 10.0}, {"deterministic": True}):
        group = {"params": named[:2], **settings}
        opt = vadam.Vadam([known, group], num_data=10)
        assert torch.equal(opt.state[head.weight]["prior_mean"], head.weight)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_a_frozen_point_of_an_earlier_posterior_is_not_trained_later(temperature):
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[0].requires_grad_(False)
    earlier = vadam.Vadam(model.named_parameters(), num_data=10).posterior()
    opt = vadam.Vadam(model.named_parameters(), num_data=10, temperature=temperature, prior=earlier).attach(model)
    for _ in range(2):
        opt.zero_grad()
        model(torch.randn(4, 3)).square().mean().backward()
        opt.step()
    before = opt.posterior()
    model[0].requires_grad_(True)
    with pytest.raises(RuntimeError, match="is trained now, but it was frozen"):
        model(torch.randn(4, 3))
    model[0].requires_grad_(False)
    assert all(torch.equal(before.mean[name], mu) for name, mu in opt.posterior().mean.items())
    opt.load_state_dict(copy.deepcopy(opt.state_dict()))
    model(torch.randn(4, 3)).square().mean().backward()
    opt.step()


def test_a_frozen_point_is_not_trained_by_full_von():
    model = nn.Linear(2, 1)
    model.bias.requires_grad_(False)
    earlier = vadam.Vadam(model.named_parameters(), num_data=10).posterior()
    opt = vadam.FullVON(model.named_parameters(), num_data=10, prior=earlier)
    model.bias.requires_grad_(True)
    with pytest.raises(RuntimeError, match=r"a parameter of shape \(1,\) is trained now"):
        opt.step(lambda: model(torch.randn(4, 2)).square().mean())


def test_a_pruned_posterior_is_no_prior():
    model = nn.Linear(3, 1)
    _, pruned = vadam.Vadam(model.named_parameters(), num_data=10).posterior().prune(0.5)
    with pytest.raises(ValueError, match="would sample its pruned weights again"):
        vadam.Vadam(model.named_parameters(), num_data=10, prior=pruned)


def test_learned_prior_precision_is_the_maximum_of_the_bound():
    """The prior precision after an update maximises the ELBO's only term in λ; scipy finds the same number."""
    from scipy.optimize import minimize_scalar

    torch.manual_seed(0)
    model = nn.Linear(20, 3)
    x, y = torch.randn(50, 20), torch.randn(50, 3)
    opt = vadam.Vadam(
        model.named_parameters(), lr=0.01, num_data=50, init_precision=50.0, prior=0.1, learn_prior_every=7
    )

    def closure():
        opt.zero_grad()
        loss = 0.5 * (model(x) - y).square().mean()
        loss.backward()
        return loss

    for step in range(1, 8):
        assert opt.param_groups[0]["prior_precision"] == 1.0
        if step == 7:
            break
        opt.step(closure)
    opt.step(closure)
    learned = opt.param_groups[0]["prior_precision"]
    opt.param_groups[0]["prior_precision"] = 1.0  # the posterior for which the update was made
    post = opt.posterior(model)

    def negative_bound(log_lam: float) -> float:
        prior_precision = dict.fromkeys(post.mean, float(torch.tensor(log_lam).double().exp()))
        again = MeanFieldGaussian(
            post.mean, post.precision, prior_precision=prior_precision, prior_mean=dict.fromkeys(post.mean, 0.1)
        )
        return float(again.kl())

    best = minimize_scalar(negative_bound, bounds=(-5, 8), method="bounded", options={"xatol": 1e-6})
    assert abs(torch.tensor(learned).log().item() - best.x) < 1e-2


@pytest.mark.parametrize("temperature", [0.25, 4.0])
def test_a_learned_prior_at_a_temperature_is_that_of_fewer_data(temperature):
    """A temperature divides N and λ: said in either way, the learned λ/T is the same. Weights that the data do not reach stay bounded."""

    def learned(T: float, share: float) -> float:
        torch.manual_seed(0)
        x, model = torch.randn(50, 6) * torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0, 0.0]), nn.Linear(6, 1)
        settings = {"lr": 0.1, "num_data": 50 * share, "prior_precision": share, "init_precision": 50 / T * share}
        opt = vadam.VON(model.parameters(), beta=0.9, temperature=T, curvature="exact", learn_prior_every=5, **settings)
        for _ in range(60):
            opt.step(lambda: (model(x) - x[:, :1]).square().mean())
        return opt.param_groups[0]["prior_precision"] / T

    assert learned(temperature, 1.0) == pytest.approx(learned(1.0, 1 / temperature), rel=1e-3)
    assert 0.1 < learned(temperature, 1.0) < 100


@pytest.mark.parametrize("curvature", ["reparam", "score", "hutchinson", "exact"])
def test_a_learned_prior_leaves_every_precision_positive_where_curvature_is_negative(curvature):
    """A prior that is learned to be weaker than the negative curvature of a weight would leave it without variance."""
    for seed in range(6):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
        x, y = torch.randn(40, 4), torch.randn(40, 2)
        settings = {"lr": 0.02, "beta": 0.9, "num_data": 40, "prior_precision": 20.0, "init_precision": 20.0}
        opt = vadam.VON(model.parameters(), curvature=curvature, learn_prior_every=5, **settings)

        def closure(model=model, opt=opt, x=x, y=y):
            rows = torch.randperm(40)[:8]
            opt.zero_grad()
            loss = (model(x[rows]) - y[rows]).square().mean()
            if curvature == "reparam":
                loss.backward()
            return loss

        for _ in range(30):
            opt.step(closure)
            opt.posterior()  # raises if a precision is not positive
        opt.load_state_dict(opt.state_dict())


def test_learned_prior_precision_recovers_the_scale_of_the_weights():
    """Weights drawn from N(0, 1/25) and plenty of data: the learned precision is near 25, its sampling error is √(2/D) = 6 %."""
    torch.manual_seed(1)
    true = torch.randn(500, 1) / 5
    x = torch.randn(4000, 500)
    y = x @ true + 0.1 * torch.randn(4000, 1)
    model = nn.Linear(500, 1, bias=False)
    opt = vadam.VON(
        model.named_parameters(),
        lr=0.1,
        beta=0.9,
        num_data=4000,
        init_precision=4000.0,
        curvature="hutchinson",
        learn_prior_every=5,
    )
    for _ in range(150):
        opt.step(lambda: 50 * (model(x) - y).square().mean())
    assert 25 / 1.3 < opt.param_groups[0]["prior_precision"] < 25 * 1.3


def test_learned_prior_precision_of_a_full_covariance():
    """λ = D / Σ (σ² + μ²) with the marginal variances, for each group by itself."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x, y = torch.randn(50, 3), torch.randn(50, 2)
    opt = vadam.FullVON(
        [{"params": layer.parameters()} for layer in (model[0], model[2])], num_data=50, learn_prior_every=3
    )
    for _ in range(3):
        opt.step(lambda: 0.5 * (model(x) - y).square().mean())
    learned = [group["prior_precision"] for group in opt.param_groups]
    for group in opt.param_groups:
        group["prior_precision"] = 1.0  # the posterior for which the update was made
    post = opt.posterior()
    spread = (post.precision.inverse().diagonal() + post.mean**2).split([16, 10])
    assert learned == pytest.approx([16 / float(spread[0].sum()), 10 / float(spread[1].sum())], rel=1e-4)
    opt.step(lambda: 0.5 * (model(x) - y).square().mean())
