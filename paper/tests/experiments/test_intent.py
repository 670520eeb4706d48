"""`intent`: parts of the data, tuning on validation queries alone, fine-tuning, embeddings of the installed network."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from vadam_paper.data import DataNotAvailable, Queries, intents
from vadam_paper.experiments import find
from vadam_paper.experiments.intent import embed, finetune, network, task
from vadam_paper.experiments.intent.config import WAYS, preset
from vadam_paper.experiments.labelled import Labelled
from vadam_paper.experiments.results import read_run
from vadam_paper.experiments.runner import run, run_folder

pytest.importorskip("transformers", reason='transformers is not installed: pip install "vadam[hf]"')
pytest.importorskip("peft", reason='peft is not installed: pip install "vadam[hf]"')
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
    config, load = replace(SMOKE, methods=("adamw", "vadam"), seeds=1, trials=3, ways=()), task.load

    def shuffled(*args: object) -> task.Task:
        found = load(*args)  # type: ignore[arg-type]
        return found._replace(test=Labelled(-found.test.X, found.test.y.flip(0)))

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


def test_fine_tuning_trains_what_it_says() -> None:
    """LoRA leaves the pre-trained weights as they are; the prior of all weights is at the pre-trained ones."""
    before = dict(network.network(SMOKE, "full", 6, 0).named_parameters())
    train = network.tokens(SMOKE, None)["train"]
    lora = finetune.fit(SMOKE, "lora", "vadam", finetune.settings("lora", "vadam", 0), 0, train)
    drawn = set(lora.posterior.mean)
    assert drawn
    assert all("lora_" in name or "head" in name for name in drawn)
    kept = {name.removeprefix("base_model.model."): p for name, p in lora.model.named_parameters()}
    same = [name for name in before if name in kept and torch.equal(before[name], kept[name])]
    assert len(same) > 10
    stiff = {"lr": 1e-3, "temperature": 1e-6, "prior_precision": 1e9}
    full = finetune.fit(SMOKE, "full", "vadam", stiff, 0, train)
    for name, p in full.model.named_parameters():
        torch.testing.assert_close(p, before[name], rtol=0, atol=1e-3)  # a stiff prior holds them there


@pytest.mark.parametrize(("way", "method"), [(way, m) for way in WAYS for m in finetune.SPACES[way]])
def test_the_trainer_changes_no_draw(way: str, method: str) -> None:
    """Predictions do not depend on the batches in which queries are padded and predicted."""
    parts = network.tokens(SMOKE, None)
    fitted = finetune.fit(SMOKE, way, method, finetune.settings(way, method, 0), 0, parts["train"])
    queries = parts["test"]
    whole = fitted.predict(queries, 3, torch.Generator().manual_seed(0)).probs
    first = network.Tokens(*(part[:7] for part in queries))
    alone = fitted.predict(first, 3, torch.Generator().manual_seed(0)).probs
    torch.testing.assert_close(alone, whole[:7], atol=1e-5, rtol=1e-4)
    assert whole.sum(1) == pytest.approx(1)


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
