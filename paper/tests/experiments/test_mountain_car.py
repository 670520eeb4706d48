"""The mountain car: trials that keep their noise for an episode resume exactly; verdicts of the ledger."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed")

from experiments.resuming import assert_goes_on_as_if_never_stopped
from vadam_paper.experiments import find
from vadam_paper.experiments.ledger import Verdict, entries
from vadam_paper.experiments.mountain_car.run import methods
from vadam_paper.experiments.mountain_car.table import arrived
from vadam_paper.experiments.results import Recorded, Results, read_results
from vadam_paper.experiments.rl.records import trials

EXPERIMENT = find("mountain-car")
SMALL = replace(
    EXPERIMENT.config("smoke", "text"), block=36, stretches=(108,), episode_steps=36, hidden=(8, 6), batch_size=8
)


@pytest.mark.parametrize("method", SMALL.methods)
def test_a_trial_goes_on_from_its_checkpoint_as_if_never_stopped(method: str) -> None:
    assert_goes_on_as_if_never_stopped(SMALL, methods(SMALL)[method], until=108)


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_blocks_and_updates_end_with_an_episode(preset: str) -> None:
    config = EXPERIMENT.config(preset, "text")
    assert config.block % config.episode_steps == config.episode_steps % config.train_every == 0
    assert all(end % config.block == 0 for end in config.stretches)


def verdict(**arrivals: list[int]) -> Verdict:
    found = {
        f"{name.replace('_', '-')}-{i}-100": {
            "step": [0, 100],
            "mean": [0.0, 0.0],
            "arrivals": n,
            "first_arrival": None,
        }
        for name, counts in arrivals.items()
        for i, n in enumerate(counts)
    }
    results = Results({"text": Recorded("quick", "text", {"config": {}}, found)})
    return next(entry.evidence.verdict for entry in entries(EXPERIMENT, results) if entry.claim.id == "rl-richer")


def test_the_page_has_the_recorded_numbers() -> None:
    """The numbers of docs/reinforcement-learning.md and of the README are those of the rows."""
    root = Path(__file__).parents[2]
    results = read_results(root / "results", EXPERIMENT)
    if "text" not in results:
        pytest.skip("mountain-car is not recorded here")
    page = " ".join((root.parent / "docs" / "reinforcement-learning.md").read_text(encoding="utf-8").split())
    counts = {method: arrived(results["text"], method) for method in SMALL.methods}
    reached = {method: f"in {sum(n > 0 for n in found)} of {len(found)}" for method, found in counts.items()}
    lasting = {method: f"{np.mean(counts[method]):.1f} times" for method in ("vadam-episode", "adam-correlated-noise")}
    assert f"{reached['vadam-episode']} trials, {lasting['vadam-episode']} in each" in page
    assert f"{reached['adam-correlated-noise']} too, {lasting['adam-correlated-noise']}" in page
    assert all(
        reached[m] == "in 0 of 5" and reached[m] in page for m in ("vadam-step", "adam-action-noise", "adam-plain")
    )
    (entry,) = entries(EXPERIMENT, results)
    assert f"is *{entry.evidence.verdict}*" in page
    for p in re.findall(r"p = [\d.]*\d", entry.evidence.text):
        assert p in page
    learned = [m for m in SMALL.methods for trial in trials(results["text"], m) if trial["mean"][-1] > 50]
    assert learned == ["adam-correlated-noise"]


def test_weights_must_beat_every_noise_on_actions() -> None:
    always, never, often = [3] * 5, [0] * 5, [1, 1, 1, 0, 0]
    assert verdict(vadam_episode=always, adam_action_noise=never, adam_correlated_noise=never) == Verdict.SUPPORTED
    assert verdict(vadam_episode=always, adam_action_noise=never, adam_correlated_noise=always) == Verdict.UNDECIDED
    assert verdict(vadam_episode=often, adam_action_noise=never, adam_correlated_noise=never) == Verdict.UNDECIDED
    assert verdict(vadam_episode=never, adam_action_noise=always, adam_correlated_noise=always) == Verdict.CONTRADICTED
    assert verdict(vadam_episode=always, adam_action_noise=never) == Verdict.NOT_RUN
