"""`posterior`: merged regressions against closed forms, and that test images decide nothing."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from vadam_paper import data
from vadam_paper.experiments import find
from vadam_paper.experiments.labelled import Labelled
from vadam_paper.experiments.posterior import continual, fit, images, merging, pruning
from vadam_paper.experiments.posterior.config import preset
from vadam_paper.experiments.results import read_run
from vadam_paper.experiments.runner import run, run_folder

EXPERIMENT = find("posterior")
SMOKE = preset("smoke", "text")


def test_merged_linear_regressions_are_exact() -> None:
    errors = merging.linear(SMOKE)
    assert max(*errors["mean"], *errors["precision"]) < 1e-12


@pytest.mark.skipif(not data.available("breast-cancer"), reason="the breast-cancer data are not on this machine")
def test_merged_logistic_regressions_are_closer_than_halves() -> None:
    kl = merging.logistic_halves(SMOKE, None)
    assert np.all(np.less(kl["merged"], kl["half"]))
    assert np.all(np.less(kl["merged"], kl["averaged_means"]))


def test_a_task_is_a_permutation_of_the_pixels() -> None:
    part = images.load(SMOKE, "mnist", SMOKE.train_images, None).train
    first, second = (continual.task(SMOKE, part, k, 0) for k in (0, 1))
    assert torch.equal(first.X, part.X)
    assert not torch.equal(second.X, part.X)
    assert torch.equal(second.X.flatten(1).sort(1).values, part.X.flatten(1).sort(1).values)
    assert torch.equal(continual.task(SMOKE, part, 1, 0).X, second.X)
    assert not torch.equal(continual.task(SMOKE, part, 1, 1).X, second.X)


def test_the_prior_of_a_task_is_the_posterior_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, train = [], fit.train

    def spy(*args, prior=None, **options):
        posterior = train(*args, prior=prior, **options)
        seen.append((prior, posterior))
        return posterior

    monkeypatch.setattr(continual, "train", spy)
    part = images.load(SMOKE, "mnist", SMOKE.train_images, None)
    continual.learn(replace(SMOKE, tasks=3), "vadam", {"lr": 1e-3, "data_weight": 1.0}, part, part.test, 0)
    assert [prior for prior, _ in seen] == [None, seen[0][1], seen[1][1]]
    for name, mean in seen[1][1].mean.items():
        assert torch.equal(seen[1][1].prior_mean[name], seen[0][1].mean[name])
        assert torch.equal(seen[1][1].prior_precision[name], seen[0][1].precision[name])
        assert not torch.equal(mean, seen[0][1].mean[name])


def test_both_halves_start_from_the_same_weights_and_see_other_images() -> None:
    part = images.load(SMOKE, "mnist", 2 * SMOKE.train_images, None)
    assert torch.equal(fit.mlp(SMOKE, "merging", 0)[1].weight, fit.mlp(SMOKE, "merging", 0)[1].weight)
    model, posterior, halves = merging.combined(SMOKE, "average", {"lr": 1e-3, "data_weight": 1.0}, part, 0)
    assert posterior is None
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, (halves[0][name] + halves[1][name]) / 2)
        assert not torch.equal(halves[0][name], halves[1][name])


def test_pruned_networks_have_zeros() -> None:
    model, posterior = pruning.fitted(SMOKE, "adam", {"lr": 1e-3}, 0, None)
    _, pruned = posterior.prune(0.9, by="magnitude")
    fit.set_weights(model, pruned.mean)
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert len(weights) == 61_706
    assert (weights == 0).double().mean().item() == pytest.approx(0.9, abs=1e-4)


def test_test_images_decide_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other test images change the tests and nothing of the tuning."""
    config, load = replace(SMOKE, seeds=1), images.load

    def spoilt(*args: object) -> images.Images:
        found = load(*args)  # type: ignore[arg-type]
        return found._replace(test=Labelled(-found.test.X, found.test.y.flip(0)))

    run(EXPERIMENT, config, tmp_path / "a")
    for module in (continual, merging, pruning):
        monkeypatch.setattr(module, "load", spoilt)
    run(EXPERIMENT, config, tmp_path / "b")
    a, b = (read_run(run_folder(tmp_path / name, config)) for name in "ab")
    assert a is not None
    assert b is not None
    tuned = [key for key in a.cells if ".tune." in key]
    assert len(tuned) == 9
    assert all(a[key] == b[key] for key in tuned)
    assert a["continual.vadam.0"]["after_last"] != b["continual.vadam.0"]["after_last"]
    assert a["prune.vadam.0"]["snr"] != b["prune.vadam.0"]["snr"]
