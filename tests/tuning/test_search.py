"""Searches in lock step: their results, resuming, and independence of each other."""

import importlib
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from vadam.ensemble import MLP, Member, Method
from vadam.ensemble.members import contents
from vadam.tuning import search as search_module
from vadam.tuning import tune
from vadam.tuning.journal import Journal
from vadam.tuning.suggest import next_point, random_point

SPACE = {"prior_precision": (0.01, 100.0), "noise_precision": (1.0, 100.0)}
METHOD = Method("vadam", lr=0.05, betas=(0.9, 0.99), samples=2)


def folds(seed=0, noise=0.3, n=40):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    y = x[:, 0] + noise * rng.normal(size=n)
    parts = np.array_split(rng.permutation(n), 2)
    return [Member(x, y, train=parts[1 - k], test=parts[k], seed=k) for k in range(2)]


def search(cells, **options):
    setting = {"trials": 7, "startup": 4, "epochs": 5, "batch_size": 16, **options}
    return tune(cells, SPACE, MLP(2, 4, 1), METHOD, **setting)


def test_best_of_all_trials():
    seen = []
    found = search({"a": folds(), "b": folds(1)}, progress=lambda done, of: seen.append((done, of)))
    assert seen == [(8, 14), (10, 14), (12, 14), (14, 14)]
    for tuned in found.values():
        assert len(tuned.trials) == 7
        assert tuned.value == max(trial.value for trial in tuned.trials)
        assert (tuned.point, tuned.value) in [(trial.point, trial.value) for trial in tuned.trials]
        assert all(trial.value == pytest.approx(np.mean(trial.folds)) for trial in tuned.trials)
        for trial in tuned.trials:
            assert all(low <= trial.point[name] <= high for name, (low, high) in SPACE.items())


def test_a_cell_does_not_depend_on_the_others():
    """Scores may differ in the last place of float32 (see test_train), the points then by what the search makes of it."""
    alone = search({"a": folds()}, trials=5)["a"]
    together = search({"b": folds(1), "a": folds()}, trials=5)["a"]
    for one, other in zip(alone.trials, together.trials, strict=True):
        assert one.point == pytest.approx(other.point, rel=1e-3)
        assert one.value == pytest.approx(other.value, abs=1e-3)


@pytest.mark.parametrize("stop_after", [1, 2, 3])
def test_stopped_search_goes_on_as_if_nothing_had_happened(tmp_path, monkeypatch, stop_after):
    cells = {"a": folds(), "b": folds(1)}
    whole = search(cells, journal=tmp_path / "whole.jsonl")
    rounds = 0
    original = search_module.train

    def stopping(*args, **kwargs):
        nonlocal rounds
        rounds += 1
        if rounds > stop_after:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(search_module, "train", stopping)
    with pytest.raises(KeyboardInterrupt):
        search(cells, journal=tmp_path / "parts.jsonl")
    monkeypatch.setattr(search_module, "train", original)
    with (tmp_path / "parts.jsonl").open("a") as file:
        file.write('{"cell": "a", "tri')  # the machine went down in the middle of a line
    resumed = search(cells, journal=tmp_path / "parts.jsonl")
    assert resumed == whole
    assert (tmp_path / "parts.jsonl").read_text() == (tmp_path / "whole.jsonl").read_text()


@pytest.mark.parametrize("kept", [5, 6, 7, 8, 9])
def test_several_at_once_and_cut_anywhere(tmp_path, kept):
    """Rounds of three after four random points; wherever the journal was cut, the search ends the same."""
    rounds = []
    options = {"trials": 9, "at_once": 3}
    whole = search(
        {"a": folds()}, journal=tmp_path / "whole.jsonl", progress=lambda done, _: rounds.append(done), **options
    )
    assert rounds == [4, 7, 9]
    points = [tuple(trial.point.values()) for trial in whole["a"].trials]
    assert len(set(points)) == 9
    lines = (tmp_path / "whole.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "cut.jsonl").write_text("".join(lines[: 1 + kept]))
    assert search({"a": folds()}, journal=tmp_path / "cut.jsonl", **options) == whole


def test_finished_search_trains_nothing(tmp_path, monkeypatch):
    first = search({"a": folds()}, journal=tmp_path / "journal.jsonl")
    monkeypatch.setattr(search_module, "train", None)
    assert search({"a": folds()}, journal=tmp_path / "journal.jsonl") == first
    fewer = search({"a": folds()}, journal=tmp_path / "journal.jsonl", trials=5)["a"]
    assert fewer.trials == first["a"].trials[:5]


def test_journal_without_a_trial_holds_nobody_up(tmp_path, monkeypatch):
    """Begun with values that are not finite, and mended."""
    monkeypatch.setattr(search_module, "train", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        search({"a": folds()}, journal=tmp_path / "journal.jsonl", seed=1)
    monkeypatch.undo()
    assert search({"a": folds()}, journal=tmp_path / "journal.jsonl") == search({"a": folds()})


def test_journal_of_another_search(tmp_path):
    search({"a": folds()}, journal=tmp_path / "journal.jsonl", trials=1)
    with pytest.raises(ValueError, match=r"belongs to another search \(seed is 0 there, 1 here"):
        search({"a": folds()}, journal=tmp_path / "journal.jsonl", seed=1)
    (tmp_path / "other.jsonl").write_text("hello\n")
    with pytest.raises(ValueError, match="is not the journal of a search"):
        search({"a": folds()}, journal=tmp_path / "other.jsonl")


def test_journal_of_another_network_or_start(tmp_path):
    search({"a": folds()}, journal=tmp_path / "journal.jsonl", trials=1)
    given = [replace(member, init={}) for member in folds()]
    with pytest.raises(ValueError, match=r"belongs to another search \(starts is \['own'\] there, \['given'\] here"):
        search({"a": given}, journal=tmp_path / "journal.jsonl", trials=1)
    with pytest.raises(ValueError, match=r"belongs to another search \(network is"):
        tune({"a": folds()}, SPACE, MLP(2, 5, 1), METHOD, journal=tmp_path / "journal.jsonl", trials=1)


class Constant:
    def __call__(self, t, T):
        return 1.0


def falling(t, T):
    return 1 - t / T


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda m: {"y": 100 * m.y + 7}, {}, "y is '"),
        (lambda m: {"x": -m.x}, {}, "x is '"),
        (lambda m: {"x": torch.tensor(m.x).to(torch.bfloat16)}, {}, "x is '"),
        (lambda m: {"train": m.train[::-1]}, {}, "train is '"),
        (lambda m: {"test": m.test[1:]}, {}, "test is '"),
        (lambda m: {"init": {"0.bias": torch.ones(4)}}, {}, "init is '"),
        (lambda m: {"epochs": 3}, {}, "epochs is None there, 3.0 here"),
        (lambda m: {"temperature": 0.5 + 0.1 * m.seed}, {}, r"temperature is None there, \[0.5, 0.6\] here"),
        (lambda m: {"num_data": 7}, {}, "num_data is None there, 7.0 here"),
        (lambda m: {"lr": 0.1}, {}, "lr is None there, 0.1 here"),
        (lambda m: {"dropout": 0.1}, {}, "dropout is 0.0 there, 0.1 here"),
        (lambda m: {}, {"schedule": falling}, r"training is .*test_search.Constant.*test_search.falling"),
        (lambda m: {}, {"dtype": torch.float64}, "training is .*'torch.float64'"),
    ],
)
def test_journal_of_other_members_or_another_training(tmp_path, change, options, message):
    def run(change, **options):
        members = [replace(member, **change(member)) for member in given]
        return search(
            {"a": members}, journal=tmp_path / "journal.jsonl", trials=1, **{"schedule": Constant(), **options}
        )

    given = [replace(member, init={"0.bias": torch.zeros(4)}) for member in folds()]
    first, schedule = run(lambda m: {}), Constant()  # an object of its own, as in a new process
    assert run(lambda m: {"prior_precision": 3.0, "y": m.y.tolist()}, schedule=schedule) == first
    with pytest.raises(ValueError, match=rf"belongs to another search \({message}"):
        run(change, **options)


def test_bounds_may_be_numbers_of_numpy_or_torch(tmp_path):
    low, high = SPACE["prior_precision"]
    kinds = [(low, high), (np.float32(low), np.int64(high)), (torch.tensor(low), torch.tensor(high))]
    found = [
        tune({"a": folds()}, {"prior_precision": bounds}, MLP(2, 4, 1), METHOD, trials=2, epochs=1, journal=journal)
        for bounds, journal in zip(kinds, (tmp_path / f"{k}.jsonl" for k in range(3)), strict=True)
    ]
    for tuned in found[1:]:
        assert tuned["a"].point == pytest.approx(found[0]["a"].point)


def test_shared_arrays_are_read_once(monkeypatch):
    reads = []
    members_module = importlib.import_module("vadam.ensemble.members")
    monkeypatch.setattr(members_module, "copied", lambda values: reads.append(id(values)) or torch.zeros(3))
    members = folds()
    contents([*members, *members])
    assert len(reads) == len(set(reads)) == 4  # x, y, and two halves of the rows


@pytest.mark.parametrize("bad", [-100.0, -1e4, -math.inf])
def test_a_hopeless_corner_does_not_blunt_the_search(bad):
    """A smooth bowl with its best at the middle, and a corner where everything fails, finitely or not."""
    space = {"a": (math.exp(-4), math.exp(4)), "b": (math.exp(-4), math.exp(4))}

    def value(point):
        a, b = math.log(point["a"]) / 4, math.log(point["b"]) / 4
        return bad if a > 0.3 and b > 0.3 else -((a + 0.2) ** 2) - (b - 0.1) ** 2

    corner = {"a": math.exp(3.5), "b": math.exp(3.5)}
    tried = [(point, value(point)) for point in (corner, *(random_point(space, [0, k]) for k in range(5)))]
    for k in range(5, 13):
        point = next_point(space, tried, [0, k])
        tried.append((point, value(point)))
    assert max(v for _, v in tried) > -0.01  # a plain Gaussian process: -0.49, -0.19, -0.007


def test_divergence_is_a_bad_value_for_its_cell_alone(tmp_path, monkeypatch):
    """A learning rate of 1e20 blows every network up; the search learns to stay away from it."""
    cells = {"wild": folds(), "calm": folds()}
    space = {"lr": (1e-3, 1e30)}
    found = tune(cells, space, MLP(2, 4, 1), METHOD, trials=12, startup=6, epochs=5, journal=tmp_path / "j.jsonl")
    for tuned in found.values():
        failed = [trial for trial in tuned.trials if trial.value == -math.inf]
        assert failed
        assert tuned.point["lr"] < 10
        assert math.isfinite(tuned.value)
    assert "Infinity" not in (tmp_path / "j.jsonl").read_text()
    record = Journal(tmp_path / "j.jsonl", json.loads((tmp_path / "j.jsonl").read_text().splitlines()[0])["search"])
    assert record.trials["wild"] == found["wild"].trials


def test_all_diverge():
    tuned = tune({"a": folds()}, {"lr": (1e29, 1e30)}, MLP(2, 4, 1), METHOD, trials=4, startup=2, epochs=5)["a"]
    assert tuned.value == -math.inf
    assert len(tuned.trials) == 4


def test_search_finds_the_top_of_a_hill():
    """Twenty points on a smooth hill in two dimensions: within a quarter of the hill's width of the top."""

    def value(point):
        a, b = math.log(point["prior_precision"]), math.log(point["noise_precision"])
        return -((a - 1) ** 2) / 4 - (b - 2) ** 2

    tried = []
    for k in range(20):
        point = random_point(SPACE, [0, k]) if k < 5 else next_point(SPACE, tried, [0, k])
        tried.append((point, value(point)))
    assert max(value for _, value in tried) > -0.05
    again = next_point(SPACE, tried[:10], [0, 10])
    assert again == tried[10][0]


def test_random_points_fill_the_space():
    points = [random_point(SPACE, [0, 1, k]) for k in range(2000)]
    for name, (low, high) in SPACE.items():
        share = np.log([point[name] / low for point in points]) / math.log(high / low)
        assert np.histogram(share, 10, (0, 1))[0] == pytest.approx(200, abs=5 * 180**0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cells": {}}, "no cell to tune"),
        ({"cells": {"a": []}}, "cell 'a' needs folds"),
        (
            {"cells": {"a": [Member(np.zeros((3, 2)), np.zeros(3))]}},
            "cell 'a' needs folds to score: members with test rows",
        ),
        ({"space": {}}, "the space is empty"),
        ({"space": {"lr": (0.0, 1.0)}}, "the bounds .* of 'lr' are not valid"),
        ({"space": {"epochs": (1, 10)}}, "'epochs' cannot be searched: the space may name dropout, lr"),
        ({"cells": {"a": [replace(folds()[0], lr=math.inf)]}}, "fold 0 of cell 'a': lr must be in .* got inf"),
        ({"metric": "rmse"}, "metric='rmse' is not valid"),
        ({"metric": "accuracy"}, "metric='accuracy' needs likelihood='bernoulli' or 'categorical', not 'gaussian'"),
        ({"cells": {1: folds()}}, "cell 1 must have a name, a text"),
        ({"trials": 0}, "trials=0 is not valid"),
        ({"seed": -1}, "seed=-1 is not valid: give a whole number from 0"),
    ],
)
def test_wrong_arguments(tmp_path, change, message):
    arguments = {"cells": {"a": folds()}, "space": SPACE, **change}
    cells, space = arguments.pop("cells"), arguments.pop("space")
    with pytest.raises((TypeError, ValueError), match=message):
        tune(cells, space, MLP(2, 4, 1), METHOD, **arguments, journal=tmp_path / "journal.jsonl")
    assert not (tmp_path / "journal.jsonl").exists()
