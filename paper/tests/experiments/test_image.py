"""Image classifiers: the split, out-of-distribution inputs, BatchNorm, one budget, resumed cells, claims."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from vadam.likelihoods import Categorical
from vadam.prediction import Classes
from vadam_paper.experiments import ExperimentError, find, runner
from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.image import run, task
from vadam_paper.experiments.image.config import METHODS, PRESETS, Config
from vadam_paper.experiments.image.methods import GRIDS, START, Data, optimizer_of, remaining_start
from vadam_paper.experiments.image.network import ResidualNetwork, parts
from vadam_paper.experiments.image.scores import reliability, scores
from vadam_paper.experiments.image.train import Plan, fit, refresh_statistics
from vadam_paper.experiments.ledger import Verdict, entries
from vadam_paper.experiments.results import Recorded, Results, read_results, recorded_sets
from vadam_paper.report import build

EXPERIMENT = find("image")
SMOKE = EXPERIMENT.config("smoke", "text")
DATA = Data(100, SMOKE.temperature)


@pytest.fixture(autouse=True)
def _digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VADAM_IMAGES", raising=False)


@pytest.fixture(scope="module")
def digits() -> task.Task:
    return task.task(SMOKE, task.load(SMOKE), 0)


def in_common(a: torch.Tensor, b: torch.Tensor) -> int:
    """Return the images of ``a`` that are also in ``b``, however either is standardised; all 1,797 digits differ."""
    a, b = ((X.flatten(1) - X.flatten(1).mean(1, keepdim=True)) / X.flatten(1).std(1, keepdim=True) for X in (a, b))
    return int((torch.cdist(a, b).min(1).values < 0.01).sum())


def test_no_image_is_in_two_parts() -> None:
    paper = EXPERIMENT.config("paper", "text")
    parts = task.load(paper)
    first, second = (task.task(paper, parts, seed) for seed in (0, 1))
    assert (len(first.X), len(first.test_X), first.classes) == (599, 599, 10)
    assert float(first.X.mean()) == pytest.approx(0, abs=1e-4)
    assert float(first.X.std()) == pytest.approx(1, abs=1e-4)
    development = parts.X[parts.development]
    assert in_common(first.X, first.X) == 599
    for found in (first, second):
        assert in_common(found.X, found.test_X) == 0
        assert in_common(found.X, development) == in_common(found.test_X, development) == 0
    assert 0 < in_common(first.test_X, second.test_X) < 599  # a split for each seed


def test_every_development_image_is_held_out_once() -> None:
    parts = task.load(SMOKE)
    folds = list(task.folds(replace(SMOKE, folds=3), parts))
    assert sum(len(fold.test_X) for fold in folds) == len(parts.development)
    for fold in folds:
        assert len(fold.X) + len(fold.test_X) == len(parts.development)
        assert in_common(fold.X, fold.test_X) == 0


def test_settings_are_chosen_on_images_that_were_not_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Watch the images that a cell itself trains and validates on, seeds included."""
    from vadam_paper.experiments.image import scores as scoring
    from vadam_paper.experiments.image import train

    trained: list[torch.Tensor] = []
    validated: list[torch.Tensor] = []

    def fitted(plan: Plan, X: torch.Tensor, y: torch.Tensor, classes: int) -> train.Fitted:
        trained.append(X)
        return fit(plan, X, y, classes)

    def score(fitted: train.Fitted, held_out: task.Task, samples: int, noise: torch.Generator) -> float:
        validated.append(held_out.test_X)
        return -1.0

    monkeypatch.setattr(train, "fit", fitted)
    monkeypatch.setattr(scoring, "validation_score", score)
    config = replace(SMOKE, epochs=1, trials=2)
    run.run_cell(config, "batch-adam", CellContext(config, "batch-adam", tmp_path))
    assert len(validated) == 2 * config.folds
    assert len(trained) == len(validated) + config.seeds
    for X, held_out in zip(trained, validated, strict=False):
        assert in_common(X, held_out) == 0
    for X in trained[len(validated) :]:
        assert in_common(X, torch.cat(validated)) == 0


def test_out_of_distribution_inputs() -> None:
    X = torch.rand(5, 1, 8, 8)
    shifted = task.out_of_distribution(X, torch.Generator().manual_seed(0))
    assert torch.equal(shifted["rotated"][2, 0, 0], X[2, 0, :, -1])
    assert torch.allclose(shifted["inverted"] + X, X.min() + X.max())
    assert X.min() <= shifted["noise"].min() < shifted["noise"].max() <= X.max()


def test_images_of_your_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "mine.npz", X=rng.integers(0, 256, (200, 3, 8, 8), dtype=np.uint8), y=rng.integers(0, 4, 200))
    monkeypatch.setenv("VADAM_IMAGES", str(tmp_path / "mine.npz"))
    config = EXPERIMENT.config("smoke", "text")
    assert config.fingerprint != SMOKE.fingerprint
    assert config.methods == METHODS
    whole = replace(config, development_share=0.2, train_share=0.6)
    found = task.task(whole, task.load(whole), 0)
    assert found.X.shape == (120, 3, 8, 8)
    assert found.classes == 4
    config = replace(config, development_share=0.2, train_share=0.2)
    result = run.run_cell(config, "batch-vogn", CellContext(config, "batch-vogn", tmp_path))
    assert 0 <= result["seeds"][0]["accuracy"] <= 1


def test_unusable_images_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match=r"neither an .npz file nor a folder"):
        task.named(str(tmp_path / "nothing.npz"))
    with pytest.raises(ExperimentError, match=r"no <class>/\*.png"):
        task.named(str(tmp_path))
    np.savez(tmp_path / "few.npz", X=np.arange(144.0).reshape(9, 4, 4), y=np.arange(9))
    few = replace(SMOKE, images=str(tmp_path / "few.npz"))
    with pytest.raises(ExperimentError, match="has 9 images, of which 1 would be for training"):
        task.task(few, task.load(few), 0)


def save_images(path: Path, seed: int = 0) -> str:
    rng = np.random.default_rng(seed)
    np.savez(path, X=rng.integers(0, 256, (120, 6, 6), dtype=np.uint8), y=np.arange(120) % 2)
    return str(path)


@pytest.mark.parametrize(
    ("X", "y", "says"),
    [
        (np.ones((60, 4, 4)), np.arange(60) % 2, "All pixels of .* are 1"),
        (np.arange(960.0).reshape(60, 4, 4), np.zeros(60, int), "has 1 class"),
        (
            np.arange(960.0).reshape(60, 4, 4),
            np.arange(60) % 10 * 100,
            "up to 900, but images of 10 classes only.*return_inverse",
        ),
    ],
)
def test_sets_that_no_classifier_can_learn_are_refused(X: np.ndarray, y: np.ndarray, says: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "shifted.npz", X=X, y=y)
    with pytest.raises(ExperimentError, match=says):
        task.load(replace(SMOKE, images=str(tmp_path / "shifted.npz")))


def test_images_are_identified_by_content_not_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def config_of(path: str) -> Config:
        monkeypatch.setenv("VADAM_IMAGES", path)
        return EXPERIMENT.config("smoke", "text")

    (tmp_path / "else").mkdir()
    mine, moved = save_images(tmp_path / "mine.npz"), save_images(tmp_path / "else" / "mine.npz")
    first, second = config_of(mine), config_of(moved)
    assert first.images != second.images
    assert first.content == second.content
    assert first.fingerprint == second.fingerprint
    assert first.experiment == second.experiment == f"image-mine-{first.content[:8]}"
    save_images(tmp_path / "mine.npz", seed=1)
    assert config_of(mine).experiment != first.experiment
    assert config_of(mine).fingerprint != first.fingerprint
    with pytest.raises(ExperimentError, match="VADAM_IMAGES cannot be read"):
        config_of(str(tmp_path / "nothing.npz"))
    config_of(mine)
    monkeypatch.setenv("VADAM_IMAGES_MOST", "40")
    config = EXPERIMENT.config("smoke", "text")
    parts = task.load(config)
    assert len(parts.development) + len(parts.rest) == config.most == 40
    monkeypatch.setenv("VADAM_IMAGES_MOST", "few")
    with pytest.raises(ExperimentError, match="got 'few'"):
        EXPERIMENT.config("smoke", "text")


def test_sets_are_recorded_apart_and_read_without_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sets of the user's and the digits, all in one folder of results; the report shows all three."""
    monkeypatch.setitem(
        PRESETS, "smoke", PRESETS["smoke"] | {"methods": ("adam",), "train_share": 0.4, "development_share": 0.4}
    )
    out = tmp_path / "results"
    runner.run(EXPERIMENT, EXPERIMENT.config("smoke", "text"), out)
    for name in ("cats", "dogs"):
        monkeypatch.setenv("VADAM_IMAGES", save_images(tmp_path / f"{name}.npz", seed=len(name + name[0])))
        runner.run(EXPERIMENT, EXPERIMENT.config("smoke", "text"), out)
    monkeypatch.delenv("VADAM_IMAGES")
    (tmp_path / "cats.npz").unlink()
    sets = recorded_sets(out, EXPERIMENT)
    assert [one.name.rsplit("-", 1)[0] for one in sets] == ["image-cats", "image-dogs"]
    for one in (EXPERIMENT, *sets):
        assert read_results(out, one)["text"].cells.keys() == {"batch-adam"}
    pytest.importorskip("matplotlib")
    page = build(out, tmp_path / "page", (EXPERIMENT,)).read_text(encoding="utf-8")
    assert all(f'<section id="{one.name}"' in page for one in (EXPERIMENT, *sets))
    assert page.count('id="claim-lm-cifar"') == 1


def write_cifar(folder: Path) -> np.ndarray:
    folder.mkdir()
    records = np.random.default_rng(0).integers(0, 256, (72, 3073), dtype=np.uint8)
    records[:, 0] = np.arange(72) % 10
    records[:30].tofile(folder / "data_batch_1.bin")
    records[30:60].tofile(folder / "data_batch_2.bin")
    records[60:].tofile(folder / "test_batch.bin")
    return records


def test_cifar_10_from_its_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CIFAR-10 is recognised by its files, whatever the folder's name; its test images stay test images."""
    folder = tmp_path / "pictures"
    records = write_cifar(folder)
    found, tests = task.named(str(folder))
    assert (found.y.tolist(), tests) == (records[:, 0].tolist(), 12)
    assert found.X[1, 2, 31, 30] == pytest.approx(records[1, 1 + 2 * 1024 + 31 * 32 + 30] / 255)
    monkeypatch.setenv("VADAM_IMAGES", str(folder))
    config = EXPERIMENT.config("paper", "text")
    assert {"adagrad", "vadagrad"} <= set(config.methods)
    parts = task.load(config)
    assert sorted(torch.cat([parts.development, parts.rest]).tolist()) == list(range(60))
    for seed in (0, 1):
        one = task.task(config, parts, seed)
        assert (len(one.X), one.test_y.tolist()) == (48, records[60:, 0].tolist())
    assert EXPERIMENT.config_like(config.as_dict()) == config


def test_unusable_cifar_10_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cifar-10-batches-bin"
    write_cifar(folder)
    (folder / "data_batch_2.bin").write_bytes(b"\0" * 5000)
    with pytest.raises(ExperimentError, match=r"has 5,000 bytes, not a multiple of 3,073"):
        task.named(str(folder))
    (folder / "data_batch_2.bin").write_bytes(bytes([77]) + b"\0" * 3072)
    with pytest.raises(ExperimentError, match="has the class 77"):
        task.named(str(folder))
    (folder / "test_batch.bin").unlink()
    with pytest.raises(ExperimentError, match=r"has no test_batch.bin"):
        task.named(str(folder))
    pickles = tmp_path / "cifar-10-batches-py"
    pickles.mkdir()
    (pickles / "data_batch_1").write_bytes(b"pickle")
    with pytest.raises(ExperimentError, match="download its binary version"):
        task.named(str(pickles))
    only_called_so = save_images(tmp_path / "not-cifar.npz")
    monkeypatch.setenv("VADAM_IMAGES", only_called_so)
    assert EXPERIMENT.config("paper", "text").methods == METHODS


def test_batchnorm_is_trained_and_not_sampled() -> None:
    model = ResidualNetwork("batch", 1, (4, 8), 10)
    sampled, norms = parts(model)
    assert len(norms) == 2 * 5
    assert sum(p.numel() for p in (*sampled, *norms)) == sum(p.numel() for p in model.parameters())
    for method in ("vadam", "vogn", "ivon", "vadagrad"):
        optimizer = optimizer_of(method, GRIDS[method][0], model, DATA, torch.Generator())
        assert [group["deterministic"] for group in optimizer.param_groups] == [False, True]
        assert {id(p) for p in optimizer.param_groups[1]["params"]} == {id(p) for p in norms}
    assert parts(ResidualNetwork("group", 1, (4, 8), 10))[1] == []


def test_statistics_are_those_of_the_mean_weights() -> None:
    """One batch, by hand: the running mean of the first layer is that of its outputs over the training images."""
    model, X = ResidualNetwork("batch", 1, (4, 8), 10), torch.randn(100, 1, 8, 8)
    optimizer = optimizer_of("vadam", GRIDS["vadam"][0], model, DATA, torch.Generator()).attach(model)
    model(X).sum().backward()
    optimizer.step()  # the running statistics are those of a sample and of the weights before
    refresh_statistics(model, X)
    with torch.no_grad():
        expected = model[0](X).mean((0, 2, 3))
    torch.testing.assert_close(model[1].running_mean, expected)


def test_training_ends_with_statistics_of_the_training_images(digits: task.Task) -> None:
    config = replace(SMOKE, epochs=1)
    fitted = fit(Plan(config, "batch", "adam", GRIDS["adam"][0], ("test",)), digits.X, digits.y, digits.classes)
    with torch.no_grad():
        expected = fitted.model[0](digits.X).mean((0, 2, 3))
    torch.testing.assert_close(fitted.model[1].running_mean, expected)


@pytest.mark.parametrize("method", ["adam", "vogn"])
def test_the_rate_falls_along_a_half_cosine(method: str, digits: task.Task, monkeypatch: pytest.MonkeyPatch) -> None:
    from vadam_paper.experiments.image import train

    rates: list[float] = []

    def watched(*arguments: Any) -> torch.optim.Optimizer:
        optimizer = optimizer_of(*arguments)
        optimizer.register_step_pre_hook(lambda *_: rates.append(optimizer.param_groups[0]["lr"]))
        return optimizer

    monkeypatch.setattr(train, "optimizer_of", watched)
    settings = GRIDS[method][0]
    fit(Plan(SMOKE, "group", method, settings, ("test",)), digits.X, digits.y, digits.classes)
    steps = SMOKE.epochs * -(-len(digits.X) // SMOKE.batch_size)
    expected = [settings["lr"] * (1 + math.cos(math.pi * t / steps)) / 2 for t in range(steps)]
    assert rates == pytest.approx(expected)


@pytest.mark.parametrize("method", sorted(START))
def test_the_start_of_the_precision_fades(method: str) -> None:
    """Without gradients the precision is the prior's and what is left of the start; the paper's preset leaves 0.05 %."""
    model, settings = nn.Linear(3, 2), GRIDS[method][0]
    data, steps = Data(50, 0.01), 30
    optimizer = optimizer_of(method, settings, model, data, torch.Generator()).attach(model)
    for _ in range(steps):
        optimizer.zero_grad()
        (0.0 * model(torch.ones(4, 3)).sum()).backward()
        optimizer.step()
    precision = optimizer.posterior(model).precision["weight"]
    expected = settings["prior_precision"] / data.temperature + remaining_start(method, settings, data, steps)
    tolerance = 0.1 if method == "ivon" else 1e-4  # its correction keeps some of it
    torch.testing.assert_close(precision, torch.full_like(precision, expected), rtol=tolerance, atol=0)
    paper = EXPERIMENT.config("paper", "text")
    left = remaining_start(method, settings, Data(599, paper.temperature), paper.epochs * 19)
    assert left < 0.1 * settings["prior_precision"] / paper.temperature


def test_the_isotropic_control_has_the_same_mean_and_one_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    from vadam.gaussian import MeanFieldGaussian
    from vadam_paper.experiments.image import scores as scoring
    from vadam_paper.experiments.image.train import Fitted

    seen: list[MeanFieldGaussian] = []

    def predict(
        model: nn.Module, posterior: MeanFieldGaussian, X: torch.Tensor, samples: int, **how: object
    ) -> Classes:
        seen.append(posterior)
        return Classes(torch.zeros(1, 4, 2), Categorical())

    monkeypatch.setattr(scoring, "predict", predict)
    own = MeanFieldGaussian(
        {"a": torch.ones(2), "b": torch.zeros(1)}, {"a": torch.tensor([1.0, 5.0]), "b": torch.tensor([9.0])}
    )
    y = torch.tensor([0, 1, 0, 1])
    two = task.Task(torch.zeros(4, 1), y, torch.zeros(4, 1), y, {}, 2)
    found = scoring.isotropic(Fitted(nn.Linear(1, 1), own), two, 1, torch.Generator())
    assert found["log_likelihood"] == pytest.approx(math.log(0.5))
    control = seen[0]
    assert torch.equal(control.mean["a"], own.mean["a"])
    assert torch.equal(torch.cat([*control.precision.values()]), torch.full((3,), 5.0))
    assert scoring.spread(own)["50 %"] == 5


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
    """Count the images that each network sees."""
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
    """The cell is stopped after one of two seeds; the chosen settings are those with the larger score."""
    monkeypatch.setattr("vadam_paper.experiments.context.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    config = replace(SMOKE, trials=2, epochs=2)
    whole = run.run_cell(config, "batch-vadam", CellContext(config, "batch-vadam", tmp_path / "whole"))

    class Stopped(Exception):
        pass

    def stop(fraction: float) -> None:
        if fraction > 0.6:
            raise Stopped

    with pytest.raises(Stopped):
        run.run_cell(config, "batch-vadam", CellContext(config, "batch-vadam", tmp_path, report=stop))
    assert list((tmp_path / "checkpoints").iterdir())
    resumed = run.run_cell(config, "batch-vadam", CellContext(config, "batch-vadam", tmp_path))
    for result in (whole, resumed):
        for seed in result["seeds"]:
            seed.pop("training_cpu_seconds")
    assert resumed == whole
    best = max(whole["search"], key=lambda settings: settings["log_likelihood"])
    assert whole["chosen"].items() <= best.items()


def recorded(gap: float | None) -> Results:
    """Return three seeds, with App. M's methods where there is a gap between them."""
    methods = (("adam", 0.7),) if gap is None else (("adagrad", 0.7), ("vadagrad", 0.7 + gap))
    cells = {f"group-{method}": {"seeds": [{"accuracy": a + k / 1000} for k in range(3)]} for method, a in methods}
    config = {"images": "pictures", "seeds": 3, "epochs": 50}
    return Results({"text": Recorded("paper", "text", {"config": config}, cells)})


def test_what_the_ledger_says() -> None:
    def verdict(results: Results) -> Verdict:
        return entries(EXPERIMENT, results)[0].evidence.verdict

    assert verdict(recorded(None)) == Verdict.NOT_RUN
    assert verdict(recorded(0.004)) == Verdict.SUPPORTED
    assert verdict(recorded(0.04)) == Verdict.CONTRADICTED


def test_presets_are_the_announced_ones() -> None:
    paper = EXPERIMENT.config("paper", "text")
    assert isinstance(paper, Config)
    assert (paper.norms, paper.methods, paper.seeds, paper.epochs) == (("group", "batch"), METHODS, 5, 40)

    network = ResidualNetwork("group", 1, paper.channels, 10)
    assert 18_000 < sum(p.numel() for p in network.parameters()) < 20_000
    assert not any(isinstance(m, nn.BatchNorm2d) for m in network.modules())
