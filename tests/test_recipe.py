"""`vadam.from_adam`: what it reads from a loader, which weights it samples, and that networks of many kinds train with it."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

import vadam
from vadam.recipe import EFFECTIVE_DATA, PRIOR_PRECISION

DATA = TensorDataset(torch.randn(200, 3), torch.randint(2, (200,)))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


def test_sizes_come_from_the_loader() -> None:
    loader = DataLoader(Subset(DATA, range(120)), batch_size=30)
    group = vadam.from_adam(mlp(), loader).param_groups[0]
    assert (group["num_data"], group["batch_size"]) == (120, 30)
    sampler = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(DATA, num_samples=80), 20, drop_last=False)
    group = vadam.from_adam(mlp(), DataLoader(DATA, batch_sampler=sampler), num_data=200).param_groups[0]
    assert (group["num_data"], group["batch_size"]) == (200, 20)


def test_given_sizes_come_first() -> None:
    group = vadam.from_adam(mlp(), DataLoader(DATA, batch_size=30), num_data=1000, batch_size=60).param_groups[0]
    assert (group["num_data"], group["batch_size"]) == (1000, 60)


@pytest.mark.parametrize("N", [200, 50_000, 10**8])
def test_the_data_count_for_five_millions_at_least(N: int) -> None:
    group = vadam.from_adam(nn.Linear(3, 2), num_data=N, batch_size=20).param_groups[0]
    assert group["num_data"] * group["data_weight"] == pytest.approx(max(N, EFFECTIVE_DATA))
    assert group["prior_precision"] == PRIOR_PRECISION


def test_batchnorm_gets_a_narrower_posterior() -> None:
    narrow = vadam.from_adam(mlp(), num_data=1000, batch_size=20).param_groups[0]
    wide = vadam.from_adam(nn.Linear(3, 2), num_data=1000, batch_size=20).param_groups[0]
    assert narrow["prior_precision"] > wide["prior_precision"]
    assert narrow["data_weight"] > wide["data_weight"]


@pytest.mark.parametrize(("steps", "memory"), [(None, 0.99), (20, 0.9), (100, 0.95), (10_000, 0.99)])
def test_short_trainings_forget_faster(steps: int | None, memory: float) -> None:
    opt = vadam.from_adam(mlp(), num_data=200, batch_size=20, steps=steps)
    assert opt.param_groups[0]["betas"] == (0.9, memory)


def test_normalisation_is_not_sampled_and_frozen_weights_stay_out() -> None:
    model = mlp()
    model[0].weight.requires_grad_(False)
    opt = vadam.from_adam(model, num_data=200, batch_size=20)
    assert set(opt.posterior(model).mean) == {"0.bias", "3.weight", "3.bias"}
    assert opt.param_groups[1]["deterministic"]


def test_changes_replace_the_recipe() -> None:
    opt = vadam.from_adam(mlp(), num_data=200, batch_size=20, lr=0.1, prior="init", prior_precision=1e4, samples=2)
    group = opt.param_groups[0]
    assert (group["lr"], group["prior"], group["prior_precision"], opt.samples) == (0.1, "init", 1e4, 2)
    assert group["init_precision"] >= 1e4


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        yield from DATA


@pytest.mark.parametrize(
    ("how", "error", "text"),
    [
        ({}, ValueError, "num_data is needed"),
        ({"loader": DataLoader(Stream(), batch_size=4)}, ValueError, "num_data is needed"),
        ({"num_data": 200}, ValueError, "batch_size is needed"),
        (
            {"num_data": 200, "batch_size": 20, "steps": 0},
            ValueError,
            "steps must be a whole number of at least 1, got 0",
        ),
        ({"num_data": 200, "batch_size": 200}, ValueError, "batch_size must be below num_data"),
        ({"num_data": 200, "batch_size": 20, "rate": 1}, TypeError, "rate"),
    ],
)
def test_wrong_arguments(how: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        vadam.from_adam(mlp(), **how)


def test_a_model_without_weights_to_sample() -> None:
    with pytest.raises(ValueError, match="no weights to sample"):
        vadam.from_adam(nn.LayerNorm(3), num_data=200, batch_size=20)
    with pytest.raises(TypeError, match=r"model must be the nn\.Module"):
        vadam.from_adam(mlp().parameters(), num_data=200, batch_size=20)  # type: ignore[arg-type]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(1, 16), nn.Linear(16, 2)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.block(self.embed(x[..., None])).mean(1))


NETWORKS = {
    "mlp": mlp,
    "deep": lambda: nn.Sequential(nn.Linear(3, 16), *(nn.Sequential(nn.Linear(16, 16), nn.ReLU()) for _ in range(6)), nn.Linear(16, 2)),
    "attention": Attention,
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_train_as_with_adam(name: str) -> None:
    """200 steps on two clouds: what Adam learns with the same rate and minibatches, the recipe learns, too."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(2, (400,), generator=generator)
    X = torch.randn(400, 3, generator=generator) + 1.5 * (2 * y[:, None] - 1)
    accuracy = []
    for make in (
        lambda model: torch.optim.Adam(model.parameters(), 1e-2),
        lambda model: vadam.from_adam(model, num_data=400, batch_size=40, lr=1e-2, steps=200, generator=generator),
    ):
        torch.manual_seed(0)
        model = NETWORKS[name]()
        opt = make(model)
        for step in range(200):
            rows = torch.arange(40) + 40 * (step % 10)
            opt.zero_grad()
            nn.functional.cross_entropy(model(X[rows]), y[rows]).backward()
            opt.step()
        model.eval()
        accuracy.append(float((model(X).argmax(1) == y).double().mean()))
    assert accuracy[0] > 0.97
    assert accuracy[1] > 0.97


@pytest.mark.parametrize("ranks", [1, 4])
def test_sizes_are_those_of_all_ranks(ranks: int) -> None:
    sampler = torch.utils.data.DistributedSampler(DATA, num_replicas=ranks, rank=0)
    group = vadam.from_adam(mlp(), DataLoader(DATA, batch_size=10, sampler=sampler)).param_groups[0]
    assert (group["num_data"], group["batch_size"]) == (200, 10 * ranks)
    given = vadam.from_adam(mlp(), DataLoader(DATA, batch_size=10, sampler=sampler), num_data=90, batch_size=5)
    assert (given.param_groups[0]["num_data"], given.param_groups[0]["batch_size"]) == (90, 5)


def test_an_earlier_posterior_is_the_prior() -> None:
    model = mlp()
    earlier = vadam.from_adam(model, num_data=200, batch_size=20).posterior(model)
    post = vadam.from_adam(model, num_data=100, batch_size=20, prior=earlier).posterior(model)
    for name, precision in earlier.precision.items():
        torch.testing.assert_close(post.prior_precision[name], precision)
        torch.testing.assert_close(post.precision[name], precision)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"num_data": 0}, r"num_data must be in \(0, inf\), got 0"),
        ({"num_data": "many"}, r"num_data must be in \(0, inf\), got 'many'"),
        ({"temperature": 0}, r"temperature must be in \(0, inf\), got 0"),
        ({"data_weight": None}, r"data_weight must be in \(0, inf\), got None"),
        ({"prior_precision": "wide"}, r"prior_precision must be in \[0, inf\), got 'wide'"),
    ],
)
def test_wrong_numbers_are_refused_by_name(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        vadam.from_adam(mlp(), **{"num_data": 200, "batch_size": 20, **given})


@pytest.mark.parametrize("draws", [80, 5000])
@pytest.mark.parametrize("in_batches", [False, True])
def test_the_draws_of_a_sampler_are_not_counted_as_examples(draws: int, in_batches: bool) -> None:
    samplers = torch.utils.data
    weighted = samplers.WeightedRandomSampler(torch.ones(200), draws)
    for sampler in (samplers.RandomSampler(DATA, replacement=True, num_samples=draws), weighted):
        batches = {"batch_sampler": samplers.BatchSampler(sampler, 20, False)} if in_batches else {"batch_size": 20}
        loader = DataLoader(DATA, **batches, **({} if in_batches else {"sampler": sampler}))
        group = vadam.from_adam(mlp(), loader).param_groups[0]
        assert (group["num_data"], group["batch_size"]) == (200, 20)
    part = samplers.BatchSampler(samplers.SubsetRandomSampler(range(50)), 20, False)
    assert vadam.from_adam(mlp(), DataLoader(DATA, batch_sampler=part)).param_groups[0]["num_data"] == 50


def test_items_that_may_be_batches_are_not_counted_as_examples() -> None:
    sampler = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(DATA), 4, False)
    loader = DataLoader(DATA, sampler=sampler, batch_size=None)  # 50 batches of 4 examples
    with pytest.raises(ValueError, match="num_data is needed: the loader has batch_size=None"):
        vadam.from_adam(mlp(), loader, batch_size=4)
    assert vadam.from_adam(mlp(), loader, num_data=200, batch_size=4).param_groups[0]["num_data"] == 200


def test_an_earlier_posterior_is_matched_by_name_where_layers_are_frozen_or_new() -> None:
    layers = [layer for _ in range(3) for layer in (nn.Linear(4, 4), nn.LayerNorm(4))]
    model = nn.Sequential(*layers)
    earlier = vadam.from_adam(model, num_data=200, batch_size=20).posterior(model)
    model[2].requires_grad_(False)
    model[3].requires_grad_(False)
    opt = vadam.from_adam(model, num_data=100, batch_size=20, prior=earlier)
    found = opt.posterior(model).prior_mean
    assert found is not None
    assert list(found) == ["0.weight", "0.bias", "4.weight", "4.bias"]
    for name, mean in found.items():
        torch.testing.assert_close(mean, earlier.mean[name])


def test_the_mean_as_the_page_on_saving_loads_it_has_weights_that_are_not_sampled() -> None:
    model, opened = mlp(), mlp()
    opt = vadam.from_adam(model, num_data=200, batch_size=20, lr=0.1)
    model(torch.randn(20, 3)).square().sum().backward()
    opt.step()
    page = (Path(__file__).parents[1] / "docs" / "saving.md").read_text()
    (line,) = re.findall(r"`(model\.load_state_dict\(.*?\))`", page)
    exec(line, {"model": opened, "post": opt.posterior(model)})
    for name, p in opened.named_parameters():
        torch.testing.assert_close(p, model.get_parameter(name), rtol=0, atol=0)
