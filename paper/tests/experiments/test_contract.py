"""Every experiment keeps the contract of a folder."""

import json
import re
from pathlib import Path

import pytest

from vadam_paper.experiments import PRESETS, Experiment, ExperimentError, experiments, find
from vadam_paper.experiments.context import CellContext

ALL = experiments()
RUNNABLE = [experiment for experiment in ALL if experiment.runnable]
NAMES = {
    "theory",
    "logreg-toy",
    "logreg-usps",
    "logreg-breast-cancer",
    "uci",
    "australian",
    "half-cheetah",
    "local-minima",
    "char-lm",
}


def by_name(experiment: Experiment) -> str:
    return experiment.name


def test_the_guide_names_what_the_context_of_a_cell_has(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "adding-an-experiment.md").read_text(encoding="utf-8")
    context = CellContext(find("theory").config("smoke", "text"), "cell", tmp_path)
    named = set(re.findall(r"`context\.(\w+)", guide))
    assert named >= {"data", "report", "checkpoint", "restore"}
    assert all(hasattr(context, name) for name in named)


def test_every_artefact_of_the_paper_is_there_in_its_order() -> None:
    assert {e.name for e in ALL} >= NAMES
    assert [e.order for e in ALL] == sorted(e.order for e in ALL)
    assert {e.name for e in RUNNABLE} >= {"theory", "logreg-toy", "logreg-usps", "logreg-breast-cancer", "australian"}


def test_found_by_name_and_by_alias() -> None:
    assert find("table1") is find("uci")


@pytest.mark.parametrize(
    ("typed", "meant"), [("logreg-toi", "logreg-toy"), ("theorie", "theory"), ("usps", "logreg-usps")]
)
def test_an_unknown_name_is_answered_with_the_nearest(typed: str, meant: str) -> None:
    with pytest.raises(ExperimentError, match=f"Did you mean '{meant}'"):
        find(typed)


@pytest.mark.parametrize("experiment", RUNNABLE, ids=by_name)
def test_readme_has_claim_protocol_and_numbered_deviations(experiment: Experiment) -> None:
    text = experiment.readme
    assert text.startswith(f"# {experiment.name}: ")
    assert "\n## The paper\n" in text or "\n## The question\n" in text  # of what goes beyond the paper
    for heading in ("Protocol", "Result", "Deviations"):
        assert f"\n## {heading}\n" in text
    deviations = re.findall(r"^(\d+)\. ", text.partition("## Deviations")[2], re.MULTILINE)
    assert [int(number) for number in deviations] == list(range(1, len(deviations) + 1))
    assert deviations


@pytest.mark.parametrize("experiment", RUNNABLE, ids=by_name)
def test_presets_and_protocols_are_different_configurations(experiment: Experiment) -> None:
    configs = [experiment.config(preset, protocol) for preset in PRESETS for protocol in experiment.protocols]
    assert len({config.fingerprint for config in configs}) == len(configs)
    assert all(config.experiment == experiment.name for config in configs)
    for config in configs:
        cells = experiment.cells(config)
        assert all(cost > 0 for cost in cells.values())
        assert all(re.fullmatch(r"[\w.-]+", key) for key in cells)  # keys name files
        assert json.loads(json.dumps(config.as_dict())) is not None


def test_a_fingerprint_depends_on_every_field() -> None:
    from dataclasses import replace

    config = find("logreg-toy").config("smoke", "text")
    others = [replace(config, seed=1), replace(config, iterations=301), replace(config, revision=2)]
    assert len({config.fingerprint, *(other.fingerprint for other in others)}) == 4
    assert config.fingerprint == find("logreg-toy").config("smoke", "text").fingerprint


def test_wrong_presets_and_protocols_are_named() -> None:
    with pytest.raises(ExperimentError, match="smoke, quick, paper, got 'full'"):
        find("theory").config("full", "text")
    with pytest.raises(ExperimentError, match="protocol of theory must be one of text, got 'authors'"):
        find("theory").config("smoke", "authors")


@pytest.mark.parametrize("experiment", ALL, ids=by_name)
def test_claims_say_what_and_where(experiment: Experiment) -> None:
    assert experiment.claims
    for claim in experiment.claims:
        assert claim.says.endswith(".")
        assert re.search(rf"§|App\.|Fig\.|Table|Theorem|Abstract|^Aim of {experiment.name}$", claim.where)
        assert (claim.judge is not None) == experiment.runnable


def test_claims_have_names_of_their_own() -> None:
    ids = [claim.id for experiment in ALL for claim in experiment.claims]
    assert len(ids) == len(set(ids))
    assert len(ids) >= 50


def test_a_declared_experiment_says_that_it_cannot_run() -> None:
    for experiment in ALL:
        if not experiment.runnable:
            with pytest.raises(ExperimentError, match="cannot be run"):
                experiment.config("smoke", experiment.protocols[0])
