"""Pruning, tempering, merging and comparing posteriors, and the summary of what their precision is made of."""

import math
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import prune

import vadam
from vadam.gaussian import FullGaussian, MeanFieldGaussian, RotatedGaussian, Shares, UninformedPosterior


def gaussian(seed: int = 0, **fields) -> MeanFieldGaussian:
    g = torch.Generator().manual_seed(seed)
    mean = {"a": torch.randn(4, 3, generator=g).double(), "b": torch.randn(5, generator=g).double()}
    precision = {name: 1 + 3 * torch.rand(x.shape, generator=g).double() for name, x in mean.items()}
    return MeanFieldGaussian(mean, precision, **{"prior_precision": {"a": 0.5, "b": 0.5}, **fields})


def test_snr_is_the_mean_in_units_of_its_deviation():
    post = gaussian()
    for name, ratio in post.snr().items():
        torch.testing.assert_close(ratio, post.mean[name].abs() / post.stddev[name])


@pytest.mark.parametrize("by", ["snr", "magnitude"])
def test_pruning_removes_the_lowest_scores_over_all_tensors(by):
    post = gaussian()
    masks, pruned = post.prune(0.4, by=by)
    scores = post.snr() if by == "snr" else {name: mu.abs() for name, mu in post.mean.items()}
    kept = torch.cat([scores[name][masks[name] == 1] for name in scores])
    removed = torch.cat([scores[name][masks[name] == 0] for name in scores])
    assert len(removed) == round(0.4 * 17)
    assert kept.min() > removed.max()
    assert pruned.num_weights == 17 - len(removed)
    for name, draws in pruned.sample(50).items():
        assert (draws[:, masks[name] == 0] == 0).all()
        assert (draws[:, masks[name] == 1].std(0) > 0).all()


def test_a_pruned_posterior_counts_the_other_weights_alone():
    post = gaussian()
    masks, pruned = post.prune(0.5)
    flat = {name: mask.flatten() == 1 for name, mask in masks.items()}
    mean, precision = (
        {name: getattr(post, field)[name].flatten()[flat[name]] for name in flat} for field in ("mean", "precision")
    )
    rest = MeanFieldGaussian(mean, precision, prior_precision={"a": 0.5, "b": 0.5})
    torch.testing.assert_close(pruned.entropy(), rest.entropy())
    torch.testing.assert_close(pruned.kl(), rest.kl())
    assert pruned.symmetric_kl(pruned.tempered(2.0)) > 0
    draw = pruned.sample()
    torch.testing.assert_close(
        pruned.log_prob(draw), rest.log_prob({name: draw[name].flatten()[flat[name]] for name in flat})
    )


def test_weights_that_are_pruned_have_no_density_elsewhere():
    post = gaussian()
    pruned = post.prune(0.5)[1]
    assert (pruned.log_prob(post.sample(4)) == -torch.inf).all()
    draws = pruned.sample(4)
    mixture = vadam.Mixture([pruned, pruned.tempered(2.0)])
    expected = torch.stack([component.log_prob(draws) for component in mixture.components]).exp().mean(0).log()
    torch.testing.assert_close(mixture.log_prob(draws), expected)
    same = vadam.Mixture([post, post.prune(0.0)[1]])
    torch.testing.assert_close(same.log_prob(draws), post.log_prob(draws))


@pytest.mark.parametrize("fraction", [0.0, 0.2, 0.5])
def test_pruning_again_removes_further_weights(fraction):
    first_masks, once = gaussian().prune(0.5)
    masks, twice = once.prune(fraction)
    assert twice.num_weights == once.num_weights - round(fraction * once.num_weights)
    for name, draw in twice.sample(20).items():
        assert (draw[:, first_masks[name] == 0] == 0).all()
        assert (masks[name] <= first_masks[name]).all()


def test_merging_keeps_pruned_weights_at_zero():
    masks, pruned = gaussian(0).prune(0.5)
    merged = MeanFieldGaussian.merge([pruned, gaussian(1)])
    assert merged.num_weights == pruned.num_weights
    for name, draw in merged.sample(20).items():
        assert (draw[:, masks[name] == 0] == 0).all()
        assert (draw[:, masks[name] == 1].std(0) > 0).all()


def test_masks_fit_torchs_pruning_and_predictions_use_the_pruned_weights():
    torch.manual_seed(0)
    model = nn.Linear(6, 2)
    mean = {name: p.detach() for name, p in model.named_parameters()}
    masks, pruned = MeanFieldGaussian(mean, {n: torch.full_like(x, 9.0) for n, x in mean.items()}).prune(0.5)
    x = torch.eye(6)[(masks["weight"] == 0).all(0)]
    spread = vadam.predict(model, pruned, torch.cat([x, torch.zeros(1, 6)])).samples
    for row in range(len(x)):  # inputs whose weights are all pruned have the output of a zero input
        torch.testing.assert_close(spread[:, row], spread[:, -1])
    prune.custom_from_mask(model, "weight", masks["weight"])
    torch.testing.assert_close(model.weight.detach(), pruned.mean["weight"])


def test_tempering_divides_the_precision():
    post = gaussian()
    cold = post.tempered(0.25)
    for name in post.mean:
        torch.testing.assert_close(cold.precision[name], 4 * post.precision[name])
        assert torch.equal(cold.mean[name], post.mean[name])


@pytest.mark.parametrize(
    "number", [np.float32(0.25), np.array(0.25), torch.tensor(0.25)], ids=lambda x: type(x).__name__
)
@pytest.mark.parametrize("kind", [MeanFieldGaussian, RotatedGaussian])
def test_a_temperature_of_numpy_or_torch_is_saved(number, kind, tmp_path):
    post = gaussian() if kind is MeanFieldGaussian else RotatedGaussian.of(gaussian())
    vadam.save(tmp_path / "post.safetensors", post.tempered(number))
    loaded = vadam.load(tmp_path / "post.safetensors").posterior
    assert loaded.temperature == dict.fromkeys(post.mean, 0.25)


def test_a_full_posterior_knows_its_temperature_as_the_prior_of_the_next_task(tmp_path):
    """At temperature T the marginals of FullVON's posterior are divided by T, which the next task at T must undo, once."""
    model = nn.Linear(3, 2)
    post = vadam.FullVON(model.named_parameters(), num_data=10, temperature=0.25).posterior(model)
    vadam.save(tmp_path / "post", post)
    rotated = vadam.EVON(model.named_parameters(), num_data=10, temperature=0.25).posterior(model)
    for full in (post, vadam.load(tmp_path / "post").posterior, post.to(torch.float64), rotated.full()):
        marginals = full.marginals()
        assert marginals.temperature == FullGaussian.of(marginals).temperature == {"weight": 0.25, "bias": 0.25}
        second = vadam.Vadam(model.named_parameters(), num_data=10, temperature=0.25, prior=marginals)
        lam = second.posterior(model).prior_precision
        torch.testing.assert_close(lam["weight"], (marginals.precision["weight"] * 0.25).float())


def test_distance_is_the_wasserstein_distance():
    """For Gaussians in one dimension it is √((μ − μ')² + (σ − σ')²), by quadrature of the quantile functions."""
    a, b = (
        MeanFieldGaussian({"w": torch.tensor([m], dtype=torch.float64)}, {"w": torch.tensor([p], dtype=torch.float64)})
        for m, p in ((0.3, 4.0), (-1.0, 0.25))
    )
    u = (torch.arange(200_000, dtype=torch.float64) + 0.5) / 200_000
    quantile = [post.mean["w"] + post.stddev["w"] * torch.special.ndtri(u) for post in (a, b)]
    by_quadrature = (quantile[0] - quantile[1]).square().mean().sqrt()
    torch.testing.assert_close(a.distance(b), by_quadrature, rtol=1e-4, atol=0)
    assert float(a.distance(a)) == 0
    torch.testing.assert_close(a.distance(b), b.distance(a))


def test_a_pruned_weight_is_a_point_at_zero_in_distances():
    """The Wasserstein distance of N(μ, σ²) from the point 0 is √(μ² + σ²)."""
    post = gaussian()
    masks, pruned = post.prune(0.5)
    removed = [(post.mean[name] ** 2 + post.variance[name])[mask == 0].sum() for name, mask in masks.items()]
    torch.testing.assert_close(pruned.distance(post), sum(removed).sqrt())
    torch.testing.assert_close(post.distance(pruned), pruned.distance(post))
    assert float(pruned.distance(pruned)) == 0


@pytest.mark.parametrize("prior_mean", [0.0, 1.5])
def test_merged_halves_that_are_cold_are_the_joint_cold_posterior(prior_mean):
    """At temperature T the precisions hold λ/T, which is what must be counted once; the means do not depend on T."""
    torch.manual_seed(0)
    T, columns = 0.25, [torch.linalg.qr(torch.randn(n, 3, dtype=torch.float64))[0] * n for n in (8, 12)]
    targets = [torch.randn(len(x), 1, dtype=torch.float64) for x in columns]

    def fitted(x: torch.Tensor, y: torch.Tensor, **arguments: float) -> MeanFieldGaussian:
        model = nn.Linear(3, 1, bias=False, dtype=torch.float64)
        exactly = {
            "lr": 1.0,
            "beta": 0.0,
            "curvature": "exact",
            "samples": 2,
            "antithetic": True,
            "step_bound": math.inf,
        }
        prior = {"prior": prior_mean, "prior_precision": 2.0}
        opt = vadam.VON(model.named_parameters(), num_data=len(x), **exactly, **prior, **arguments)
        for _ in range(3):
            opt.step(lambda: 0.5 * (model(x) - y).square().mean())
        return opt.posterior(model)

    joint = fitted(torch.cat(columns), torch.cat(targets)).tempered(T)
    trained = [fitted(x, y, temperature=T) for x, y in zip(columns, targets, strict=True)]
    tempered = [fitted(x, y).tempered(T) for x, y in zip(columns, targets, strict=True)]
    for parts in (trained, tempered):
        merged = MeanFieldGaussian.merge(parts)
        torch.testing.assert_close(merged.mean, joint.mean, rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(merged.precision, joint.precision, rtol=1e-8, atol=0)
        assert merged.temperature == {"weight": T}
    with pytest.raises(ValueError, match=r"posteriors of one temperature, got \[0.25, 1.0\] for 'weight'"):
        MeanFieldGaussian.merge([trained[0], fitted(columns[1], targets[1])])


@pytest.mark.parametrize("build", [vadam.Vadam, vadam.EVON, vadam.FullVON], ids=lambda build: build.__name__)
def test_a_summary_shows_temperature_and_data_weight(build, tmp_path):
    model = nn.Linear(3, 2)
    assert "temperature" not in str(build(model.named_parameters(), num_data=10).summary(model))
    opt = build(model.named_parameters(), num_data=10, temperature=0.5, data_weight=3.0)
    assert opt.summary(model).settings == ("temperature 0.5", "data_weight 3")
    assert "temperature 0.5" in str(opt.summary(model))
    assert opt.posterior(model).summary().settings == ("temperature 0.5",)
    if build is not vadam.FullVON:
        vadam.save(tmp_path / "post", opt.posterior(model).tempered(0.5))
        assert vadam.load(tmp_path / "post").posterior.summary().settings == ("temperature 0.25",)


@pytest.mark.parametrize("prior_mean", [None, 1.5])
def test_merged_halves_are_the_joint_posterior_of_linear_regression(prior_mean):
    """With one feature a weight the exact posteriors are Gaussian: precision Σx² + λ, precision × mean Σxy + λ μ₀."""
    g = torch.Generator().manual_seed(0)
    x, y = (torch.randn(30, 4, generator=g).double() for _ in range(2))
    lam, mu0 = 2.0, prior_mean or 0.0

    def exact(rows: slice) -> MeanFieldGaussian:
        precision = x[rows].square().sum(0) + lam
        mean = ((x[rows] * y[rows]).sum(0) + lam * mu0) / precision
        prior = None if prior_mean is None else {"w": mu0}
        return MeanFieldGaussian({"w": mean}, {"w": precision}, prior_precision={"w": lam}, prior_mean=prior)

    merged, joint = (
        MeanFieldGaussian.merge([exact(slice(0, 9)), exact(slice(9, 21)), exact(slice(21, 30))]),
        exact(slice(0, 30)),
    )
    torch.testing.assert_close(merged.mean["w"], joint.mean["w"], rtol=1e-12, atol=0)
    torch.testing.assert_close(merged.precision["w"], joint.precision["w"], rtol=1e-12, atol=0)


WRONG = {
    "fraction": (lambda: gaussian().prune(1.0), r"fraction must be in \[0, 1\), got 1.0"),
    "score": (lambda: gaussian().prune(0.5, by="size"), "by must be 'snr' or 'magnitude', got 'size'"),
    "temperature": (lambda: gaussian().tempered(0.0), r"temperature must be in \(0, inf\), got 0.0"),
    "nothing to merge": (lambda: MeanFieldGaussian.merge([]), "at least one posterior"),
    "other prior": (
        lambda: MeanFieldGaussian.merge([gaussian(), gaussian(prior_precision={"a": 1.0, "b": 0.5})]),
        "one prior, but their prior_precision differs",
    ),
    "no prior": (lambda: MeanFieldGaussian.merge([gaussian(prior_precision=None)] * 2), "these posteriors have none"),
    "kl to zeros": (lambda: gaussian().kl_to(gaussian().prune(0.5)[1]), r"is infinite: compare by distance\(\)"),
    "symmetric kl": (lambda: gaussian().prune(0.5)[1].symmetric_kl(gaussian()), "has pruned weights of"),
    "no density": (lambda: vadam.FullGaussian.of(gaussian().prune(0.5)[1]), "a density for every weight"),
    "mixture of densities": (
        lambda: vadam.Mixture([gaussian(), gaussian().prune(0.5)[1]]).log_prob(gaussian().sample(3)),
        "components that have pruned the same weights",
    ),
    "wider than the prior": (
        lambda: MeanFieldGaussian.merge([gaussian(prior_precision={"a": 50.0, "b": 50.0})] * 2),
        "not positive",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_is_explained(case):
    call, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        call()


def test_all_of_it_is_saved_and_loaded(tmp_path):
    post = gaussian(
        prior_mean={"a": 0.3, "b": torch.arange(5.0).double()}, shares={"a": Shares(0.2, 0.3), "b": Shares(1.0, 0.0)}
    )
    _, pruned = post.prune(0.3)
    vadam.save(tmp_path / "post", pruned)
    loaded = vadam.load(tmp_path / "post").posterior
    assert loaded.shares == pruned.shares
    assert torch.equal(loaded.pruned["a"], pruned.pruned["a"])
    assert torch.equal(loaded.prior_mean["b"], torch.arange(5.0).double())
    torch.testing.assert_close(loaded.kl(), pruned.kl())
    assert str(loaded.summary()) == str(pruned.summary())
    moved = pruned.to(torch.float32)
    assert moved.pruned["a"].dtype is torch.bool
    assert moved.mean["a"].dtype is torch.float32


def test_kl_to_a_prior_with_a_mean_is_that_to_the_gaussian():
    post = gaussian(prior_mean={"a": 0.3, "b": torch.arange(5.0).double()})
    prior = MeanFieldGaussian(
        {"a": torch.full((4, 3), 0.3).double(), "b": torch.arange(5.0).double()},
        {name: torch.full_like(x, 0.5) for name, x in post.mean.items()},
    )
    torch.testing.assert_close(post.kl(), post.kl_to(prior))
    full = vadam.FullGaussian.of(post)
    torch.testing.assert_close(full.kl(), post.kl())


def trained(steps: int, **arguments) -> tuple[nn.Module, vadam.VariationalOptimizer]:
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    x = torch.randn(200, 3)
    y = x.sum(1, keepdim=True) + 0.1 * torch.randn(200, 1)
    opt = vadam.Vadam(model.parameters(), **{"lr": 0.05, "num_data": 200, **arguments})
    for i in range(steps):
        rows = torch.arange(20) + 20 * (i % 10)

        def closure(rows=rows):
            opt.zero_grad()
            loss = 50 * (model(x[rows]) - y[rows]).square().mean()
            loss.backward()
            return loss

        opt.step(closure)
    return model, opt


def test_shares_add_up_to_the_precision():
    """Vadam's precision is N s/w + N s₀ + λ: the parts are known from the state."""
    model, opt = trained(50, init_precision=500.0, batch_size=20, prior_precision=3.0)
    post = opt.posterior(model)
    state = opt.state[model.weight]
    w = (200 - 20) / (20 * 199)
    data, start = 200 * state["s"] / w, 200 * state["s0"]
    torch.testing.assert_close(post.precision["weight"], data + start + 3.0)
    shares = post.shares["weight"]
    assert shares.prior == pytest.approx(float((3.0 / post.precision["weight"]).mean()), rel=1e-5)
    assert shares.start == pytest.approx(float((start / post.precision["weight"]).mean()), rel=1e-5)
    assert shares.data == pytest.approx(float((data / post.precision["weight"]).mean()), rel=1e-4)
    assert "weight" in str(opt.summary(model))
    assert math.isclose(sum((shares.prior, shares.start, shares.data)), 1)


def test_a_posterior_that_is_all_start_or_all_prior_is_warned_about_once():
    model, opt = trained(3, init_precision=1e6)
    post = opt.posterior(model)
    assert post.summary().advice[0].startswith("99% of the precision is the start")
    with pytest.warns(UninformedPosterior, match="precision is the start .*train longer"):
        vadam.predict(model, post, torch.zeros(1, 3), likelihood=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vadam.predict(model, post, torch.zeros(1, 3), likelihood=None)  # no warning a second time
    model, opt = trained(3, prior_precision=1e9)
    with pytest.warns(UninformedPosterior, match="of the precision is the prior's"):
        vadam.predict(model, opt.posterior(model), torch.zeros(1, 3), likelihood=None)
    model, opt = trained(300, init_precision=100.0, batch_size=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vadam.predict(model, opt.posterior(model), torch.zeros(1, 3), likelihood=None)


def test_rotated_posteriors_and_mixtures_are_warned_about_too():
    model = nn.Linear(3, 1)
    evon = vadam.EVON(model.parameters(), num_data=100, prior_precision=1e9).attach(model)
    model(torch.randn(5, 3)).square().mean().backward()
    evon.step()
    mixture = vadam.Mixture([trained(3, init_precision=1e6)[1].posterior(model)])
    for post in (evon.posterior(model), mixture):
        with pytest.warns(UninformedPosterior, match="of the precision is the"):
            vadam.predict(model, post, torch.zeros(1, 3), likelihood=None)


def test_another_dtype_is_that_of_every_tensor():
    tensors = {
        name: torch.ones(2, dtype=torch.float64) for name in ("mean", "precision", "prior_precision", "prior_mean")
    }
    fields = {name: {"w": value} for name, value in tensors.items()}
    moved = MeanFieldGaussian(**fields, point={"b": torch.zeros(1, dtype=torch.float64)}).to(torch.float32)
    for name in fields:
        assert getattr(moved, name)["w"].dtype == torch.float32, name
    assert moved.point["b"].dtype == torch.float32
