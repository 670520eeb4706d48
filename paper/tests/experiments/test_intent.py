"""`intent`: parts of the data, tuning on validation queries alone, and embeddings of the installed network."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from vadam_paper.data import DataNotAvailable, Queries, intents
from vadam_paper.experiments import find
from vadam_paper.experiments.intent import embed, task
from vadam_paper.experiments.intent.config import preset
from vadam_paper.experiments.results import read_run
from vadam_paper.experiments.runner import run, run_folder

EXPERIMENT = find("intent")
SMOKE = preset("smoke", "text")


def test_ten_queries_of_each_intent() -> None:
    whole, few = (task.load(SMOKE, size, None) for size in ("all", "ten"))
    classes, n, _ = task.SYNTHETIC
    assert torch.bincount(whole.train.y).tolist() == [n] * classes
    assert torch.bincount(few.train.y).tolist() == [10] * classes
    assert torch.equal(few.validation.X, whole.validation.X)


def test_the_best_setting_on_validation_queries_is_tested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other test queries change the tests and nothing of the tuning."""
    config, load = replace(SMOKE, methods=("adamw", "vadam"), seeds=1, trials=3), task.load

    def shuffled(*args: object) -> task.Task:
        found = load(*args)  # type: ignore[arg-type]
        return found._replace(test=task.Part(-found.test.X, found.test.y.flip(0)))

    run(EXPERIMENT, config, tmp_path / "a")
    monkeypatch.setattr(task, "load", shuffled)
    run(EXPERIMENT, config, tmp_path / "b")
    a, b = (read_run(run_folder(tmp_path / name, config)) for name in "ab")
    assert a is not None
    assert b is not None
    for key, result in a.cells.items():
        if key.startswith("tune."):
            assert result == b[key]
            best = min(result["search"], key=lambda trial: trial["nll"])
            assert result["settings"] == {name: value for name, value in best.items() if name != "nll"}
        elif key.startswith("test."):
            _, size, method, _ = key.split(".")
            assert result["settings"] == a[f"tune.{size}.{method}"]["settings"]
            assert result["nll"] != b[key]["nll"]


def test_clinc150_where_it_is() -> None:
    try:
        parts = intents(download=False)
    except DataNotAvailable as error:
        pytest.skip(str(error))
    sizes = {name: len(part.texts) for name, part in parts.items()}
    assert sizes == {"train": 15_000, "val": 3_000, "test": 4_500, "oos_train": 100, "oos_val": 100, "oos_test": 1_000}
    for part, each in (("train", 100), ("val", 20), ("test", 30)):
        assert torch.bincount(torch.tensor(parts[part].labels)).tolist() == [each] * 150
    assert parts["oos_test"].labels == ()


def test_embeddings_do_not_depend_on_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each query alone, without padding, has the embedding that it has beside longer ones; like queries are near."""
    texts = ("what is my balance", "tell me how much money is in my account", "play some jazz", "hi")
    monkeypatch.setenv("VADAM_CACHE", str(tmp_path))
    monkeypatch.setattr(embed, "intents", lambda data: {"train": Queries(texts, (0, 0, 1, 2))})
    try:
        together = embed.embeddings(None)["train"]
    except DataNotAvailable as error:
        pytest.skip(str(error))
    alone = torch.cat([embed._embed([text], lambda n: None) for text in texts])
    torch.testing.assert_close(together, alone, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(together.square().mean(1), torch.ones(4))
    assert together[0] @ together[1] > together[0] @ together[2]
    assert torch.equal(embed.embeddings(None)["train"], together)  # read from the cache
