"""The language model: split, streams, carried state, Table 4, stopped and resumed runs, what the ledger may say."""

import copy
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from vadam_paper.data import available
from vadam_paper.experiments import find
from vadam_paper.experiments.char_lm import records, run
from vadam_paper.experiments.char_lm.config import OURS, PAPER
from vadam_paper.experiments.char_lm.methods import METHODS, adagrad
from vadam_paper.experiments.char_lm.network import LanguageModel, detached
from vadam_paper.experiments.char_lm.text import corpus, streams
from vadam_paper.experiments.char_lm.trial import Trial
from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.ledger import Verdict, entries
from vadam_paper.experiments.manifest import write_manifest
from vadam_paper.experiments.milestones import parse_key
from vadam_paper.experiments.results import Recorded, Results, read_results
from vadam_paper.experiments.runner import run_folder
from vadam_paper.experiments.store import Store
from vadam_paper.experiments.timing import Duration

EXPERIMENT = find("char-lm")
CONFIG = replace(EXPERIMENT.config("smoke", "text"), stretches=(1, 3))
TEXT = corpus("the quick brown fox jumps over the lazy dog; and then again, " * 25)

needs_text = pytest.mark.skipif(not available("war-and-peace"), reason="War and Peace is not on this machine")


@needs_text
def test_the_novel_is_cut_by_position() -> None:
    """The text has 3,258,227 characters, 84 different ones, and the parts joined together are the text."""
    from vadam_paper.data import load
    from vadam_paper.experiments.char_lm.text import war_and_peace

    novel = war_and_peace(None, None)
    assert (len(novel.train), len(novel.validation), len(novel.test)) == (2_606_583, 325_822, 325_822)
    assert len(novel.vocabulary) == 84
    text = load("war-and-peace").content.decode()
    assert "".join(novel.vocabulary[i] for i in novel.test[-300:]) == text[-300:]
    assert "".join(novel.vocabulary[i] for i in novel.validation[:300]) == text[2_606_583 : 2_606_583 + 300]


@pytest.mark.parametrize("length", [103, 121, 120, 17])
def test_streams_cover_the_text_in_order(length: int) -> None:
    numbers = torch.arange(length)
    x, y = streams(numbers, count=4, steps=5)
    assert torch.equal(y, x + 1)
    assert torch.equal(x.flatten(), numbers[: x.numel()])
    assert len(numbers) - 1 - x.numel() < len(x) * 5
    assert x.shape[1] % 5 == 0
    assert len(x) == min(4, (length - 1) // 5)


def test_the_network_starts_as_torch_rnn_does() -> None:
    torch.manual_seed(0)
    model = LanguageModel(84, 64, 128, 2)
    lstm = model.lstm.requires_grad_(False)
    assert float(lstm.weight_ih_l0.std()) == pytest.approx(192**-0.5, rel=0.02)
    assert float(lstm.weight_hh_l1.std()) == pytest.approx(256**-0.5, rel=0.02)
    gates = lstm.bias_ih_l0.view(4, 128)  # torch's order: input, forget, cell, output
    assert gates.mean(1).tolist() == [0, 1, 0, 0]
    trained = sum(p.numel() for p in LanguageModel(84, 64, 128, 2).parameters() if p.requires_grad)
    assert trained == 84 * 64 + 4 * 128 * (64 + 128 + 1) + 4 * 128 * (128 + 128 + 1) + 129 * 84


def test_a_carried_state_is_one_long_pass() -> None:
    torch.manual_seed(0)
    model = LanguageModel(7, 4, 6, 2).double()
    x = torch.randint(7, (3, 40))
    whole, _ = model(x)
    parts, state = [], None
    for part in x.split(13, 1):
        logits, state = model(part, state)
        parts.append(logits)
        state = detached(state)
    torch.testing.assert_close(torch.cat(parts, 1), whole)


def test_the_test_loss_is_that_of_one_long_pass() -> None:
    trial = Trial(CONFIG, METHODS["sgd"], 0, TEXT)
    trial.advance()
    with torch.no_grad():
        logits = trial.model(trial.test.x)[0].double()
    loss = F.cross_entropy(logits.flatten(0, 1), trial.test.y.flatten())
    point = trial.points[0]
    assert point["test"] == pytest.approx(float(loss), rel=1e-5)
    assert point["test_bits"] == pytest.approx(math.log2(math.exp(point["test"])), rel=1e-9)
    assert point["test_error"] == pytest.approx(float((logits.argmax(-1) != trial.test.y).double().mean()))


def test_an_epoch_is_plain_sgd_with_clipping_and_a_carried_state() -> None:
    """A loop written out here, with the rate of the third epoch, agrees; a clip of 0.01 is met by many entries."""
    config = replace(CONFIG, stretches=(4,), clip=0.01)
    trial = Trial(config, METHODS["sgd"], 0, TEXT)
    trial.points = [{}] * 2
    model = copy.deepcopy(trial.model)
    trial.advance()
    rate = 0.5 / 10  # K = 80 of 200 epochs is 1.6 of 4
    weights, state, clipped = [p for p in model.parameters() if p.requires_grad], None, 0
    for x, y in trial.train.chunks(config.steps):
        logits, state = model(x, state)
        state = detached(state)
        grads = torch.autograd.grad(F.cross_entropy(logits.flatten(0, 1), y.flatten()), weights)
        clipped += sum(int((g.abs() > 0.01).sum()) for g in grads)
        with torch.no_grad():
            for w, g in zip(weights, grads, strict=True):
                w -= rate * g.clamp(-0.01, 0.01)
    assert clipped > 100
    for ours, expected in zip(trial.weights, weights, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-6)


def test_adagrad_with_beta_is_torchs_with_another_rate() -> None:
    torch.manual_seed(0)
    method = adagrad(0.025, beta=0.5)
    w = torch.nn.Parameter(torch.randn(6, dtype=torch.float64))
    optimizer = method.make([w], 1, None)
    optimizer.param_groups[0]["lr"] = method.alpha
    mu, s = w.detach().clone(), torch.zeros(6, dtype=torch.float64)
    for _ in range(5):
        w.grad = torch.randn(6, dtype=torch.float64)
        g = w.grad.clone()
        optimizer.step()
        s = s + 0.5 * g * g
        mu = mu - 0.025 * g / s.sqrt()
    torch.testing.assert_close(w.detach(), mu, rtol=1e-7, atol=1e-9)


def test_table_4_and_its_schedule() -> None:
    config = EXPERIMENT.config("paper", "text")
    table = {name: (METHODS[name].alpha, METHODS[name].K) for name in PAPER}
    assert table.pop("adagrad") == pytest.approx((0.025 * 2**0.5, 80))
    assert table == {"sgd": (0.5, 80), "adam": (0.0012, 40), "vadagrad": (0.0075, 40)}
    assert [config.rate(1.0, 40, epoch) for epoch in (0, 39, 40, 79, 80, 199)] == [1, 1, 0.1, 0.1, 0.01, 1e-4]
    early = EXPERIMENT.config("early", "text")
    assert [early.rate(1.0, 80, epoch) for epoch in range(10)] == [1] * 4 + [0.1] * 4 + [0.01] * 2
    assert [early.rate(1.0, 40, epoch) for epoch in range(4)] == [1, 1, 0.1, 0.1]
    long = EXPERIMENT.config("long", "text")
    assert (long.epochs, long.seeds) == (80, 2)
    assert [long.rate(1.0, 40, epoch) for epoch in (0, 39, 40, 79)] == [1, 1, 0.1, 0.1]
    assert [long.rate(1.0, 80, epoch) for epoch in (0, 79)] == [1, 1]
    vadagrad = Trial(CONFIG, METHODS["vadagrad"], 0, TEXT).optimizer
    N = Trial(CONFIG, METHODS["sgd"], 0, TEXT).train.x.numel()
    precision = torch.cat([p.flatten() for p in vadagrad.posterior().precision.values()])
    torch.testing.assert_close(precision, torch.full_like(precision, N * 1e-4))
    assert vadagrad.param_groups[0]["beta"] == 0.5
    sequences = Trial(CONFIG, METHODS["vogn"], 0, TEXT).optimizer.param_groups[0]["num_data"]
    assert sequences == N / CONFIG.steps


def test_presets_are_the_announced_ones() -> None:
    for preset in ("quick", "early", "paper"):
        config = EXPERIMENT.config(preset, "text")
        assert (config.embedding, config.hidden, config.layers) == (64, 128, 2)
        assert (config.sequences, config.steps, config.clip) == (50, 50, 5.0)
        assert set(config.methods) - {"vadagrad-total"} == {*PAPER, *OURS}
    assert EXPERIMENT.config("early", "text").characters is None
    order = list(EXPERIMENT.cells(EXPERIMENT.config("early", "text")))
    assert [parse_key(key)[:2] for key in order[:5]] == [*((method, 0) for method in PAPER), (PAPER[0], 1)]
    assert {parse_key(key)[0] for key in order[-9:]} == set(OURS)


def test_the_other_reading_is_tried_for_ten_epochs_of_one_seed() -> None:
    order = [parse_key(key) for key in EXPERIMENT.cells(EXPERIMENT.config("long", "text"))]
    assert [cell for cell in order if cell[0] == "vadagrad-total"] == [("vadagrad-total", 0, 10)]
    assert order[:4] == [(method, 0, 10) for method in PAPER]
    assert order.index(("vadagrad-total", 0, 10)) == 8  # after both seeds of the paper's methods
    assert sum(end == 50 for *_, end in order) == 8


@pytest.mark.parametrize("method", [*PAPER, *OURS])
def test_a_run_goes_on_from_its_checkpoint_as_if_never_stopped(method: str) -> None:
    """Weights, optimizer and curve are equal bit for bit, and the loss falls."""
    whole = Trial(CONFIG, METHODS[method], 0, TEXT)
    whole.advance()
    tensors = {name: value.clone() for name, value in whole.tensors().items()}
    meta = json.loads(json.dumps(whole.meta()))
    whole.advance()
    resumed = Trial(CONFIG, METHODS[method], 0, TEXT)
    resumed.load(tensors, meta)
    torch.rand(3)  # whatever else was drawn in between
    resumed.advance()
    assert resumed.points == whole.points
    a, b = whole.tensors(), resumed.tensors()
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert all(math.isfinite(x) for point in whole.points for x in point.values())


def test_methods_share_their_start_and_seeds_do_not() -> None:
    starts = [
        torch.cat([p.detach().flatten() for p in Trial(CONFIG, METHODS[m], seed, TEXT).weights])
        for m, seed in (("sgd", 0), ("vogn", 0), ("sgd", 1))
    ]
    assert torch.equal(starts[0], starts[1])
    assert not torch.equal(starts[0], starts[2])


@needs_text
def test_a_later_milestone_resumes_from_the_earlier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vadam_paper.experiments.context.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    epochs: list[int] = []
    advance = Trial.advance

    def counted(self: Trial) -> None:
        epochs.append(self.epoch)
        advance(self)

    monkeypatch.setattr(Trial, "advance", counted)
    first = run.run_cell(CONFIG, "adam-0-1", CellContext(CONFIG, "adam-0-1", tmp_path))
    both = run.run_cell(CONFIG, "adam-0-3", CellContext(CONFIG, "adam-0-3", tmp_path))
    assert epochs == [0, 1, 2]
    assert both["epochs"] == 3
    assert both["test"][:1] == first["test"]
    assert both["updates"] == 3 * first["updates"]


@needs_text
def test_a_stopped_cell_ends_with_the_same_curve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vadam_paper.experiments.context.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    whole = run.run_cell(CONFIG, "vadagrad-0-3", CellContext(CONFIG, "vadagrad-0-3", tmp_path / "whole"))

    def stop(fraction: float) -> None:
        if fraction > 0.6:  # before the second epoch is kept
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.run_cell(CONFIG, "vadagrad-0-3", CellContext(CONFIG, "vadagrad-0-3", tmp_path, report=stop))
    assert run.run_cell(CONFIG, "vadagrad-0-3", CellContext(CONFIG, "vadagrad-0-3", tmp_path)) == whole


def record(test: float, validation: tuple[float, ...] = (2.0, 1.5, 1.6)) -> dict:
    """Return a record in which each of three numbers stands for 27 epochs; a verdict needs more than 40."""
    curve = [test + 0.5, test, test - 0.1]  # the last is the lowest, but validation prefers the second
    return {"epochs": 81, "validation": list(validation), **dict.fromkeys(("train", "test", "test_bits"), curve)}


def recorded(**tests: list[float]) -> Results:
    return of_cells({f"{method}-{seed}-3": record(t) for method, ts in tests.items() for seed, t in enumerate(ts)})


def of_cells(cells: dict[str, dict], preset: str = "long", length: int = 80) -> Results:
    config = EXPERIMENT.config(preset, "text").as_dict() | {"stretches": [length]}
    return Results({"text": Recorded(preset, "text", {"config": config, "cpu_seconds": 7200.0}, cells)})


def verdicts(results: Results) -> dict[str, Verdict]:
    return {entry.claim.id: entry.evidence.verdict for entry in entries(EXPERIMENT, results)}


def text_of(claim: str, results: Results) -> str:
    return next(entry.evidence.text for entry in entries(EXPERIMENT, results) if entry.claim.id == claim)


def test_what_the_ledger_says() -> None:
    good = {"sgd": [1.2, 1.21], "vadagrad": [1.205, 1.2151]}
    bad = {"adagrad": [1.25, 1.26], "adam": [1.24, 1.25]}
    found = verdicts(recorded(**good, **bad))
    assert found == {"lm-sgd": Verdict.SUPPORTED, "lm-adaptive": Verdict.SUPPORTED, "lm-cifar": Verdict.NOT_RUN}
    found = verdicts(recorded(sgd=[1.2, 1.2], vadagrad=[1.25, 1.25], adagrad=[1.1, 1.1], adam=[1.3, 1.3]))
    assert found["lm-sgd"] == found["lm-adaptive"] == Verdict.CONTRADICTED
    text = text_of("lm-sgd", recorded(**good))
    assert "81 epochs of Table 4's schedule, 2 seeds" in text
    assert "VadaGrad minus SGD, 95 %: 0.00505 [0.00441, 0.00569]" in text


def test_only_table_4s_schedule_gives_a_verdict() -> None:
    good = recorded(sgd=[1.2, 1.21], vadagrad=[1.205, 1.2151])["text"].cells
    pressed = of_cells(dict(good), "early", length=10)
    assert verdicts(pressed)["lm-sgd"] == Verdict.UNDECIDED
    assert "α falls 20 times sooner than Table 4 says, which gives VadaGrad 2 epochs" in text_of("lm-sgd", pressed)
    begun = of_cells({key: cell | {"epochs": 40} for key, cell in good.items()})
    assert verdicts(begun)["lm-sgd"] == Verdict.UNDECIDED
    assert "have not fallen yet" in text_of("lm-sgd", begun)


def test_an_open_claim_says_how_far_the_long_run_is() -> None:
    """The long run has three of its nine runs to ten epochs: too few cells to be judged, but not hidden."""
    early = recorded(sgd=[1.2, 1.21], vadagrad=[1.205, 1.2151])["text"].cells
    long = of_cells({f"{method}-0-10": record(1.5) for method in ("sgd", "adagrad", "adam")})["text"]
    pressed = Results(of_cells(dict(early), "early", length=10), others=[long])
    (plan,) = {entry.evidence.would_decide for entry in entries(EXPERIMENT, pressed) if entry.claim.id == "lm-sgd"}
    assert "So far preset long, protocol text: 3 of 9 runs to 10 epochs, 0 of 8 runs to 20 epochs" in plan
    assert plan.endswith("2.0 hours of processor time, 41.3 hours to go at that price.")  # 650 epochs, 30 done


def test_comparable_is_neither_worse_nor_better() -> None:
    assert verdicts(recorded(sgd=[1.2, 1.2], vadagrad=[1.15, 1.15]))["lm-sgd"] == Verdict.CONTRADICTED
    assert verdicts(recorded(sgd=[1.2, 1.2], vadagrad=[1.2, 1.22]))["lm-sgd"] == Verdict.UNDECIDED


def test_one_seed_is_no_verdict() -> None:
    found = recorded(sgd=[1.2, 1.2], vadagrad=[1.2])
    assert verdicts(found)["lm-sgd"] == Verdict.NOT_RUN
    assert "Recorded seeds: SGD 0, 1; VadaGrad 0." in text_of("lm-sgd", found)
    assert "VadaGrad none" in text_of("lm-sgd", recorded(sgd=[1.2]))


def test_the_other_reading_of_f_is_the_total_loss() -> None:
    """s is then that of N times the gradient: the first precision is s₁ itself, and afterwards N² times that of the mean loss."""
    mean, total = (Trial(CONFIG, METHODS[name], 0, TEXT) for name in ("vadagrad", "vadagrad-total"))
    N = mean.train.x.numel()
    first, other = (torch.cat([p.flatten() for p in t.optimizer.posterior().precision.values()]) for t in (mean, total))
    torch.testing.assert_close(first, torch.full_like(first, N * 1e-4))
    torch.testing.assert_close(other, torch.full_like(other, 1e-4))
    x, y = next(iter(total.train.chunks(CONFIG.steps)))
    total.model.train()
    total._step(x, y, None)
    grads = torch.cat([p.grad.flatten() for p in total.weights])
    after = torch.cat([p.flatten() for p in total.optimizer.posterior().precision.values()])
    torch.testing.assert_close(after, 1e-4 + 0.5 * grads**2)
    assert grads.abs().max() <= N * CONFIG.clip * (1 + 1e-6)


def test_runs_are_paired_by_their_seed() -> None:
    """SGD lacks seed 0: pairing by position would compare its seed 1 with VadaGrad's seed 0."""
    sgd = {f"sgd-{seed}-3": record(t) for seed, t in ((1, 1.2), (2, 1.4))}
    vadagrad = {f"vadagrad-{seed}-3": record(t) for seed, t in ((0, 1.6), (1, 1.2), (2, 1.4))}
    assert verdicts(of_cells(sgd | vadagrad))["lm-sgd"] == Verdict.SUPPORTED


def test_runs_are_compared_after_the_same_epochs() -> None:
    """SGD trains for two more epochs, in which it improves by 0.3; they must not count."""
    first, longer = record(1.2), record(1.2)
    for cell, epochs in ((first, 41), (longer, 43)):
        cell["epochs"] = epochs
        for what in ("validation", "test"):
            cell[what] = [3.0] * 38 + cell[what]
    for what, more in (("validation", [1.0, 1.0]), ("test", [0.9, 0.9])):
        longer[what] = [*longer[what], *more]
    cells = {f"sgd-{seed}-5": longer for seed in (0, 1)} | {f"vadagrad-{seed}-3": first for seed in (0, 1)}
    assert verdicts(of_cells(cells))["lm-sgd"] == Verdict.SUPPORTED
    assert "41 epochs of" in text_of("lm-sgd", of_cells(cells))


def test_the_beginning_of_a_longer_run_does_not_hide_a_shorter_one(tmp_path: Path) -> None:
    def keep(preset: str, cells: int) -> None:
        config = EXPERIMENT.config(preset, "text")
        folder = run_folder(tmp_path, config)
        with Store(folder, config.fingerprint) as store:
            store.clear()
            rows = {key: store.append(key, {}, Duration(0, 0)) for key in list(EXPERIMENT.cells(config))[:cells]}
        write_manifest(folder, config, rows, len(EXPERIMENT.cells(config)), jobs=1, running=False)

    def shown() -> str:
        return read_results(tmp_path, EXPERIMENT)["text"].preset

    keep("smoke", 7)
    assert shown() == "smoke"
    keep("early", 3)
    assert shown() == "early"  # it counts for claims, however little there is of it
    keep("early", 21)
    keep("paper", 1)
    assert shown() == "early"
    keep("paper", 22)
    assert shown() == "paper"


def test_nothing_is_chosen_on_the_test_part() -> None:
    assert records.best(record(1.2)) == 1.2
    assert records.best({"validation": [None, 2.0], "test": [None, 1.9]}) == 1.9
