"""`vision`: shifts, settings, successive halving, SWAG, Laplace, resuming, and what is never looked at while tuning."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from vadam.baselines import LastLayerLaplace
from vadam.likelihoods import Categorical
from vadam.prediction import Classes
from vadam_paper.experiments import find
from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.contract import ExperimentError
from vadam_paper.experiments.labelled import Labelled
from vadam_paper.experiments.lenet import lenet5
from vadam_paper.experiments.memory import PeakMemory
from vadam_paper.experiments.ood_detection import separation
from vadam_paper.experiments.randomness import generator
from vadam_paper.experiments.results import Recorded, read_run
from vadam_paper.experiments.runner import run, run_folder
from vadam_paper.experiments.vision import methods, task
from vadam_paper.experiments.vision.config import METHODS, Config, preset
from vadam_paper.experiments.vision.fitted import Fitted, Pool, laplace_posteriors, pooled
from vadam_paper.experiments.vision.records import costs, jackknife
from vadam_paper.experiments.vision.run import cells
from vadam_paper.experiments.vision.scores import _by_members
from vadam_paper.experiments.vision.shifts import noisy, rotated
from vadam_paper.experiments.vision.study import ROUNDS, Study
from vadam_paper.experiments.vision.swag import RANK, SWAG
from vadam_paper.experiments.vision.train import Plan, Training, trained

EXPERIMENT = find("vision")
SMOKE = preset("smoke", "text")
TRAINED = [method for method in methods.MAKE if method in methods.available(METHODS)]


@pytest.fixture
def context(tmp_path: Path) -> CellContext:
    return CellContext(SMOKE, "cell", tmp_path)


def images(n: int = 3) -> torch.Tensor:
    return torch.rand(n, 1, 28, 28, generator=generator(0, "images"))


def plan(method: str, epochs: int = 2) -> Plan:
    return Plan(SMOKE, method, methods.settings(method, 0), 0, epochs)


@pytest.mark.parametrize("quarters", [0, 1, 2, -1])
def test_rotation_by_quarters_is_exact(quarters: int) -> None:
    X = images()
    torch.testing.assert_close(rotated(X, 90 * quarters), X.rot90(quarters, (2, 3)), atol=1e-5, rtol=0)


def test_rotations_add_up() -> None:
    """Two turns by 30 degrees are one by 60, up to interpolation: checked on a smooth image inside the circle."""
    side = torch.linspace(-1, 1, 28)
    y, x = torch.meshgrid(side, side, indexing="ij")
    bump = torch.exp(-((x - 0.3) ** 2 + (y + 0.1) ** 2) / 0.1)[None, None]
    torch.testing.assert_close(rotated(rotated(bump, 30), 30), rotated(bump, 60), atol=0.05, rtol=0)


def test_noise_has_its_deviation_and_stays_grey() -> None:
    grey = torch.full((200, 1, 28, 28), 0.5)
    found = noisy(grey, 0.05, generator(0, "noise"))
    assert found.std() == pytest.approx(0.05, rel=0.02)
    assert noisy(grey, 5.0, generator(0, "noise")).min() >= 0
    assert noisy(grey, 5.0, generator(0, "noise")).max() <= 1


def test_the_network_is_that_of_the_public_table() -> None:
    assert sum(p.numel() for p in lenet5(Config(preset="paper", protocol="text").widths).parameters()) == 545_546


@pytest.mark.parametrize("method", list(methods.SPACES))
def test_settings_are_distinct_points_of_the_ranges(method: str) -> None:
    found = [methods.settings(method, trial) for trial in range(8)]
    ranges = methods.SPACES[method]
    for name, (low, high) in ranges.items():
        numbers = [settings[name] for settings in found]
        assert all(0.99 * low <= x <= 1.01 * high for x in numbers)
        assert len(set(numbers)) == 8
        assert max(numbers) / min(numbers) > (high / low) ** 0.6  # they spread over the range


def test_settings_by_hand() -> None:
    """The third point is (3/4, 1/9): 11 and 10 in bases 2 and 3, mirrored."""
    low, high = methods.SPACES["adamw"]["lr"]
    assert methods.settings("adamw", 2)["lr"] == pytest.approx(low * (high / low) ** 0.75, rel=0.05)
    low, high = methods.SPACES["adamw"]["weight_decay"]
    assert methods.settings("adamw", 2)["weight_decay"] == pytest.approx(low * (high / low) ** (1 / 9), rel=0.05)


def test_every_method_has_the_same_number_of_trials() -> None:
    config = preset("paper", "text")
    found = cells(config)
    for method in methods.tuned(config.methods):
        assert sum(key.startswith(f"tune.{method}.0.") for key in found) == config.trials == 8
    assert {key.split(".")[2] for key in found if key.startswith("test.")} == set(methods.available(config.methods))


def test_separation_by_hand() -> None:
    """The 19 least uncertain of 20 test images are accepted, and so is one of four OOD images."""
    home, away = torch.arange(20.0), torch.tensor([17.5, 18.5, 30.0, 40.0])
    found = separation(home, away)
    assert found["fpr95"] == 0.25
    assert found["auroc"] == pytest.approx(np.mean([[1.0 if a > h else 0.0 for h in home] for a in away]))


def test_no_image_is_in_two_parts() -> None:
    found = task.load(SMOKE, "fashion", None)
    rows = [part.X.flatten(1) for part in (found.train, found.validation, found.test)]
    together = torch.cat(rows)
    assert len(together.unique(dim=0)) == len(together)
    assert [len(part) for part in rows] == [SMOKE.train_images, SMOKE.validation_images, SMOKE.test_images]


def test_swag_has_the_moments_of_its_formula() -> None:
    """Draws of many samples against mean, ½ diagonal and 1/(2(K − 1)) DDᵀ, computed by numpy."""
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    swag, visited = SWAG(model), []
    for _ in range(RANK + 5):
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.3 * torch.randn_like(p))
        swag.collect(model)
        visited.append(np.concatenate([p.detach().numpy().ravel() for p in model.parameters()]))
    weights = np.array(visited, dtype=float)
    means = np.cumsum(weights, 0) / np.arange(1, len(weights) + 1)[:, None]
    D = (weights - means)[-RANK:].T
    covariance = 0.5 * np.diag((weights**2).mean(0) - means[-1] ** 2) + D @ D.T / (2 * (RANK - 1))
    draws = swag.sample(200_000, generator=generator(0, "swag"))
    flat = torch.cat([draws[name].flatten(1) for name in ("weight", "bias")], 1).double().numpy()
    np.testing.assert_allclose(flat.mean(0), means[-1], atol=0.02)
    np.testing.assert_allclose(np.cov(flat.T), covariance, atol=0.02 * covariance.max())


def test_laplace_for_several_priors_is_that_of_each() -> None:
    found = task.load(SMOKE, "fashion", None)
    torch.manual_seed(0)
    model = lenet5(SMOKE.widths).eval()
    for prior, posterior in zip((1.0, 30.0), laplace_posteriors(model, found, (1.0, 30.0)), strict=True):
        alone = LastLayerLaplace(prior)
        alone.fit(model, found.scale(found.train.X), found.train.y, Categorical(), epochs=0)
        torch.testing.assert_close(posterior.precision, alone.posterior.precision, rtol=1e-4, atol=1e-4)


def test_a_pool_takes_its_members_in_turn() -> None:
    members = [Fitted(torch.nn.Linear(1, 1), None) for _ in range(3)]
    drawn = Pool(members).sample(7)["bias"]
    assert [float(b) for b in drawn] == [members[k % 3].model.bias.item() for k in range(7)]


def test_pools_draw_each_network_once_and_each_posterior_as_often_as_asked() -> None:
    points = [Fitted(torch.nn.Linear(1, 1), None) for _ in range(3)]
    posteriors = [point._replace(posterior=Pool([point])) for point in points]
    assert pooled(points, 4).samples == 3
    assert pooled(posteriors, 4).samples == 12


def test_members_are_left_out_one_by_one() -> None:
    """Three members with two draws each: losses of subsets by numpy, from the averages of their probabilities."""
    probs = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8], [0.8, 0.2], [0.6, 0.4], [0.3, 0.7]])
    found = _by_members(Classes(torch.tensor(probs).log()[:, None], Categorical()), torch.tensor([0]), 3)
    member = np.arange(6) % 3
    first = [-np.log(probs[member <= k, 0].mean()) for k in range(3)]
    without = [-np.log(probs[member != k, 0].mean()) for k in range(3)]
    assert found["first_members"] == pytest.approx(first)
    assert found["without_member"] == pytest.approx(without)


def test_the_jackknife_of_a_mean_has_its_values() -> None:
    """For a loss that is a mean over members, the pseudo-values are the members' own values."""
    values = {"mixture": [1.0, 2.0, 6.0], "deep-ensemble": [0.5, 2.5, 3.0]}
    tests = {
        f"test.mnist.{pool}.0": {
            "nll": np.mean(each),
            "without_member": [np.mean(np.delete(each, k)) for k in range(3)],
        }
        for pool, each in values.items()
    }
    recorded = Recorded("paper", "text", {"config": {"seeds": 3}}, tests)
    gaps = np.subtract(values["mixture"], values["deep-ensemble"])
    assert jackknife(recorded, "mnist", "mixture", "deep-ensemble") == pytest.approx(gaps)


@pytest.mark.parametrize("method", TRAINED)
def test_a_stopped_training_goes_on_bit_for_bit(method: str, tmp_path: Path, context: CellContext) -> None:
    found = task.load(SMOKE, "fashion", None)
    whole = trained(plan(method), found, "whole", 2, context)
    trained(plan(method), found, "parts", 1, context)
    resumed = trained(plan(method), found, "parts", 2, context)
    for name, value in whole.tensors().items():
        assert torch.equal(value, resumed.tensors()[name]), name
    draws = [
        t.posterior().sample(2, generator=generator(0, "draw")) if t.posterior() is not None else t.model.state_dict()
        for t in (whole, resumed)
    ]
    assert all(torch.equal(draws[0][name], draws[1][name]) for name in draws[0])


def test_swag_collects_after_three_quarters() -> None:
    training = Training(plan("swag", epochs=4), task.load(SMOKE, "fashion", None))
    counts = []
    for _ in range(4):
        training.advance()
        counts.append(training.swag.count if training.swag else None)
    steps = methods.steps_an_epoch(SMOKE)
    assert counts == [0, 0, 0, min(4, steps)]


def test_ivon_opt_starts_as_ours() -> None:
    pytest.importorskip("ivon")
    settings = methods.settings("ivon", 0)
    ours, theirs = (
        Training(Plan(SMOKE, method, settings, 0, 2), task.load(SMOKE, "fashion", None))
        for method in ("ivon", "ivon-opt")
    )
    for name, precision in ours.posterior().precision.items():
        torch.testing.assert_close(theirs.posterior().precision[name], precision)
        assert torch.equal(theirs.posterior().mean[name], ours.posterior().mean[name])


def test_memory_is_that_of_the_largest_moment() -> None:
    memory = PeakMemory()
    if memory.megabytes() is None:
        pytest.skip("only Linux tells the peak of the resident memory")
    held = torch.ones(25_000_000)  # 100 MB
    del held
    assert 95 < (memory.megabytes() or 0) < 130


def few(**changes: object) -> Config:
    return replace(SMOKE, methods=("adamw", "vadam"), seeds=1, long=(), rungs=((1, 4), (2, 2)), **changes)


def test_halving_goes_on_with_the_best(tmp_path: Path) -> None:
    config = few()
    run(EXPERIMENT, config, tmp_path)
    recorded = read_run(run_folder(tmp_path, config))
    assert recorded is not None
    for method in config.methods:
        first = [recorded[f"tune.{method}.0.{k}"] for k in range(4)]
        second = [recorded[f"tune.{method}.1.{k}"] for k in range(2)]
        best = sorted(first, key=lambda result: result["nll"])[:2]
        assert [result["trial"] for result in second] == [result["trial"] for result in best]
        chosen = min(second, key=lambda result: result["nll"])
        assert recorded[f"test.fashion.{method}.0"]["settings"] == chosen["settings"]
        assert recorded[f"test.mnist.{method}.0"]["settings"] == chosen["settings"]


def test_settings_are_chosen_without_test_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other test images change the tests and nothing of the tuning."""
    config, load = few(), task.load

    def inverted(*args: object) -> task.Task:
        found = load(*args)  # type: ignore[arg-type]
        return found._replace(test=Labelled(1 - found.test.X, found.test.y.flip(0)))

    run(EXPERIMENT, config, tmp_path / "a")
    monkeypatch.setattr("vadam_paper.experiments.vision.study.load", inverted)
    run(EXPERIMENT, config, tmp_path / "b")
    a, b = (read_run(run_folder(tmp_path / name, config)) for name in "ab")
    assert a is not None
    assert b is not None
    timing = ("cpu_seconds", "megabytes")
    for key in a.cells.keys() - {"speed"}:
        same = all(a[key][name] == b[key][name] for name in a[key] if name not in timing)
        assert same is key.startswith("tune."), key


def test_two_processes_wait_for_what_they_need(tmp_path: Path) -> None:
    config = few()
    run(EXPERIMENT, config, tmp_path / "one")
    run(EXPERIMENT, config, tmp_path / "two", jobs=2)
    one, two = (read_run(run_folder(tmp_path / name, config)) for name in ("one", "two"))
    assert one is not None
    assert two is not None
    assert set(one.cells) == set(two.cells)
    for key in one.cells:
        assert one[key].get("nll") == two[key].get("nll"), key


def test_costs_are_those_of_steps_in_turn() -> None:
    times = {"adamw": [2.0, 4.0], "vadam": [3.0, 8.0]}
    cells = {"speed": {"milliseconds": times}, "test.mnist.mixture.0": {"of": "vadam"}}
    recorded = Recorded("paper", "text", {"config": {"seeds": 1, "members": 5}}, cells)
    assert list(costs(recorded, "vadam")) == [1.5, 2.0]
    assert list(costs(recorded, "laplace")) == [1.0, 1.0]
    assert list(costs(recorded, "mixture")) == [7.5, 10.0]
    assert not len(costs(recorded, "deep-ensemble"))
    assert not len(costs(recorded, "swag"))


def test_every_method_that_trains_takes_steps_in_turn(tmp_path: Path) -> None:
    pytest.importorskip("ivon")
    found = Study(SMOKE, CellContext(SMOKE, "speed", tmp_path)).speed()["milliseconds"]
    assert found.keys() == {*TRAINED, "ivon-opt"}
    assert all(len(times) == ROUNDS and min(times) > 0 for times in found.values())


def test_a_cell_without_what_it_depends_on_says_so(context: CellContext) -> None:
    with pytest.raises(ExperimentError, match=r"tune.vadam.0.0 has no result yet"):
        context.result_of("tune.vadam.0.0")
