"""Image classifiers: the split, foreign inputs, BatchNorm as documented, one budget, stopped and resumed cells, claims."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from vadam.experiments import ExperimentError, find
from vadam.experiments.image import run, task
from vadam.experiments.image.config import METHODS, Config
from vadam.experiments.image.methods import GRIDS, optimizer_of
from vadam.experiments.image.network import ResidualNetwork, parts
from vadam.experiments.image.scores import reliability, scores
from vadam.experiments.image.train import Plan, fit, refresh_statistics
from vadam.experiments.ledger import Verdict, entries
from vadam.experiments.results import Recorded, Results
from vadam.experiments.work import Work
from vadam.likelihoods import Categorical
from vadam.predict import Classes

EXPERIMENT = find("image")
SMOKE = EXPERIMENT.config("smoke", "text")


@pytest.fixture(autouse=True)
def _digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VADAM_IMAGES", raising=False)


@pytest.fixture(scope="module")
def digits() -> task.Task:
    return task.load(SMOKE)


def test_no_image_is_in_two_parts() -> None:
    found = task.load(EXPERIMENT.config("paper", "text"))
    assert (len(found.X), len(found.test_X), found.classes) == (599, 1198, 10)
    assert float(found.X.mean()) == pytest.approx(0, abs=1e-4)
    assert float(found.X.std()) == pytest.approx(1, abs=1e-4)
    together = torch.cat([found.X, found.test_X]).flatten(1)
    assert len(together.unique(dim=0)) == len(together)  # the 1,797 digits are all different


def test_foreign_inputs() -> None:
    X = torch.rand(5, 1, 8, 8)
    odd = task.foreign(X, torch.Generator().manual_seed(0))
    assert torch.equal(odd["rotated"][2, 0, 0], X[2, 0, :, -1])
    assert torch.allclose(odd["inverted"] + X, X.min() + X.max())
    assert X.min() <= odd["noise"].min() < odd["noise"].max() <= X.max()


def test_images_of_your_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "mine.npz", X=rng.integers(0, 256, (200, 3, 8, 8), dtype=np.uint8), y=rng.integers(0, 4, 200))
    monkeypatch.setenv("VADAM_IMAGES", str(tmp_path / "mine.npz"))
    config = EXPERIMENT.config("smoke", "text")
    assert config.fingerprint != SMOKE.fingerprint
    assert config.methods == METHODS
    found = task.load(replace(config, train_share=0.8))
    assert found.X.shape == (160, 3, 8, 8)
    assert found.classes == 4
    result = run.run_cell(config, "batch-vogn", Work(config, "batch-vogn", tmp_path))
    assert 0 <= result["seeds"][0]["accuracy"] <= 1


def test_images_that_cannot_be_used_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match=r"neither an .npz file nor a folder"):
        task.named(str(tmp_path / "nothing.npz"))
    with pytest.raises(ExperimentError, match=r"no <class>/\*.png"):
        task.named(str(tmp_path))
    np.savez(tmp_path / "few.npz", X=np.zeros((9, 4, 4)), y=np.arange(9))
    with pytest.raises(ExperimentError, match="has 9 images, of which 1 would be for training"):
        task.load(replace(SMOKE, images=str(tmp_path / "few.npz")))


def test_cifar_10_from_its_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    rng = np.random.default_rng(0)
    records = rng.integers(0, 256, (6, 3073), dtype=np.uint8)
    records[:, 0] = [3, 1, 4, 1, 5, 9]
    records[:4].tofile(folder / "data_batch_1.bin")
    records[4:].tofile(folder / "test_batch.bin")
    found = task.named(str(folder))
    assert found.y.tolist() == [3, 1, 4, 1, 5, 9]
    assert found.X[1, 2, 31, 30] == pytest.approx(records[1, 1 + 2 * 1024 + 31 * 32 + 30] / 255)
    monkeypatch.setenv("VADAM_IMAGES", str(folder))
    assert {"adagrad", "vadagrad"} <= set(EXPERIMENT.config("paper", "text").methods)


def test_batchnorm_is_trained_and_not_sampled() -> None:
    model = ResidualNetwork("batch", 1, (4, 8), 10)
    sampled, norms = parts(model)
    assert len(norms) == 2 * 5
    assert sum(p.numel() for p in (*sampled, *norms)) == sum(p.numel() for p in model.parameters())
    for method in ("vadam", "vogn", "ivon", "vadagrad"):
        optimizer = optimizer_of(method, GRIDS[method][0], model, 100, torch.Generator())
        assert [group["deterministic"] for group in optimizer.param_groups] == [False, True]
        assert {id(p) for p in optimizer.param_groups[1]["params"]} == {id(p) for p in norms}
    assert parts(ResidualNetwork("group", 1, (4, 8), 10))[1] == []


def test_statistics_are_those_of_the_mean_weights() -> None:
    """One batch, by hand: the running mean of the first layer is that of its outputs over the training images."""
    model, X = ResidualNetwork("batch", 1, (4, 8), 10), torch.randn(100, 1, 8, 8)
    optimizer = optimizer_of("vadam", GRIDS["vadam"][0], model, 100, torch.Generator()).attach(model)
    model(X).sum().backward()
    optimizer.step()  # the running statistics are those of a sample and of the weights before
    refresh_statistics(model, X)
    with torch.no_grad():
        expected = model[0](X).mean((0, 2, 3))
    torch.testing.assert_close(model[1].running_mean, expected)


@pytest.mark.parametrize("norm", ["group", "batch"])
@pytest.mark.parametrize("method", [*METHODS, "adagrad", "vadagrad"])
def test_every_method_predicts_and_is_scored(method: str, norm: str, digits: task.Task) -> None:
    config = replace(SMOKE, epochs=1, members=2)
    fitted = fit(Plan(config, norm, method, GRIDS[method][0], ("test",)), digits.X, digits.y, digits.classes)
    seen = scores(fitted, digits, 2, torch.Generator().manual_seed(0))
    assert sum(seen["reliability"]["count"]) == len(digits.test_y)
    assert sum(seen["reliability"]["right"]) == pytest.approx(seen["accuracy"] * len(digits.test_y), rel=1e-5)
    assert seen["log_likelihood"] < 0


@pytest.mark.parametrize(("method", "epochs"), [("adam", 6), ("deep-ensemble", 2), ("deep-ensemble-full", 6)])
def test_members_of_an_ensemble_share_the_budget(
    method: str, epochs: int, digits: task.Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The images that each network sees, one by one."""
    seen: list[int] = []
    nll = Categorical.nll
    monkeypatch.setattr(Categorical, "nll", lambda self, output, y: (seen.append(len(y)), nll(self, output, y))[1])
    config = replace(SMOKE, epochs=6, members=3)
    fit(Plan(config, "group", method, GRIDS[method][0], ("test",)), digits.X, digits.y, digits.classes)
    assert sum(seen) == epochs * len(digits.X) * (1 if method == "adam" else 3)


def test_reliability_by_hand() -> None:
    probs = torch.tensor([[0.55, 0.45], [0.95, 0.05], [0.08, 0.92], [1.0, 0.0]])
    found = reliability(Classes(probs.log()[None], Categorical()), torch.tensor([0, 0, 0, 0]))
    assert found["count"] == [0, 0, 0, 0, 0, 1, 0, 0, 0, 3]
    assert found["right"][9] == 2
    assert found["confidence"][9] == pytest.approx(0.95 + 0.92 + 1.0)


def test_every_method_has_as_many_settings_to_choose_from() -> None:
    assert {len(grid) for grid in GRIDS.values()} == {EXPERIMENT.config("paper", "text").trials}
    assert set(METHODS) <= set(GRIDS)


def test_a_cell_goes_on_from_its_checkpoint_as_if_never_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after one of two seeds; the chosen settings are those with the larger score."""
    monkeypatch.setattr("vadam.experiments.work.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    config = replace(SMOKE, trials=2, epochs=2)
    whole = run.run_cell(config, "batch-vadam", Work(config, "batch-vadam", tmp_path / "whole"))

    class Stopped(Exception):
        pass

    def stop(fraction: float) -> None:
        if fraction > 0.6:
            raise Stopped

    with pytest.raises(Stopped):
        run.run_cell(config, "batch-vadam", Work(config, "batch-vadam", tmp_path, report=stop))
    assert list((tmp_path / "checkpoints").iterdir())
    resumed = run.run_cell(config, "batch-vadam", Work(config, "batch-vadam", tmp_path))
    for result in (whole, resumed):
        for seed in result["seeds"]:
            seed.pop("training_cpu_seconds")
    assert resumed == whole
    best = max(whole["search"], key=lambda settings: settings["log_likelihood"])
    assert whole["chosen"].items() <= best.items()


def recorded(images: str, gap: float) -> Results:
    cells = {
        f"group-{method}": {"seeds": [{"accuracy": a + k / 1000} for k in range(3)]}
        for method, a in (("adagrad", 0.7), ("vadagrad", 0.7 + gap))
    }
    config = {"images": images, "seeds": 3, "epochs": 50}
    return Results({"text": Recorded("paper", "text", {"config": config}, cells)})


def test_what_the_ledger_says() -> None:
    def verdict(results: Results) -> Verdict:
        return entries(EXPERIMENT, results)[0].evidence.verdict

    assert verdict(recorded("digits", 0.0)) == Verdict.NOT_RUN
    assert verdict(recorded("/data/cifar-10-batches-bin", 0.004)) == Verdict.SUPPORTED
    assert verdict(recorded("/data/cifar-10-batches-bin", 0.04)) == Verdict.NOT_SUPPORTED


def test_presets_are_the_announced_ones() -> None:
    paper = EXPERIMENT.config("paper", "text")
    assert isinstance(paper, Config)
    assert (paper.norms, paper.methods, paper.seeds, paper.epochs) == (("group", "batch"), METHODS, 5, 40)
    network = ResidualNetwork("group", 1, paper.channels, 10)
    assert 18_000 < sum(p.numel() for p in network.parameters()) < 20_000
    assert not any(isinstance(m, nn.BatchNorm2d) for m in network.modules())
