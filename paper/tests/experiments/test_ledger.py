"""The ledger: what counts as evidence, and small statistics against scipy."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from vadam_paper.experiments import Experiment, find
from vadam_paper.experiments.intervals import difference, interval, quartiles, student
from vadam_paper.experiments.ledger import Claim, Evidence, Verdict, entries, ledger
from vadam_paper.experiments.results import Recorded, Results
from vadam_paper.experiments.verdicts import exactly

THEORY = find("theory")


def run_of(preset: str, protocol: str = "text") -> Recorded:
    return Recorded(preset, protocol, {"config": {}}, {"a": {"x": 1}})


class Fake(Experiment):
    @property
    def claims(self) -> tuple[Claim, ...]:
        return (
            Claim("one", "§1", "One.", lambda results: Evidence(exactly(results["text"]["a"]["x"] == 1), "x is 1.")),
            Claim("two", "§1", "Two.", lambda results: Evidence(exactly(False), "no.")),
            Claim("three", "§1", "Three."),
        )


def fake(*protocols: str) -> Fake:
    return Fake("theory", "a test", "A test", THEORY.package, protocols=protocols)


def verdicts(experiment: Experiment, results: Results) -> list[Verdict]:
    return [entry.evidence.verdict for entry in entries(experiment, results)]


def test_judged_by_the_paper_preset_alone() -> None:
    yes, no, none = Verdict.SUPPORTED, Verdict.CONTRADICTED, Verdict.NOT_RUN
    assert verdicts(fake("text"), Results({"text": run_of("paper")})) == [yes, no, none]
    assert verdicts(fake("text"), Results({"text": run_of("quick")})) == [none, none, none]
    assert verdicts(fake("text"), Results({"text": run_of("smoke")})) == [none, none, none]
    assert verdicts(fake("text"), Results()) == [none, none, none]


def test_every_protocol_is_needed_and_the_missing_one_named() -> None:
    first, *_ = entries(fake("authors", "text"), Results({"text": run_of("paper")}))
    assert first.evidence.verdict == Verdict.NOT_RUN
    assert "missing: authors protocol" in first.evidence.text


def test_without_results_all_claims_stand_as_not_run(tmp_path: Path) -> None:
    from vadam_paper.experiments import experiments

    rows = ledger(tmp_path, experiments())
    assert {entry.evidence.verdict for entry in rows} == {Verdict.NOT_RUN}
    assert len(rows) >= 50


@pytest.mark.parametrize("statistic", [np.mean, np.median])
def test_bootstrap_interval_is_scipys(statistic) -> None:
    """Both resample 10,000 times with seeds of their own: the ends agree within 5 % of the width."""
    sample = np.random.default_rng(1).gamma(2.0, size=20)
    ours = interval(list(sample), statistic)
    theirs = stats.bootstrap((sample,), statistic, n_resamples=10_000, method="percentile", rng=2).confidence_interval
    width = theirs.high - theirs.low
    assert ours.estimate == pytest.approx(statistic(sample))
    assert ours.low == pytest.approx(theirs.low, abs=0.05 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.05 * width)


def test_differences_paired_and_not() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=20)
    a, b = base + 0.1, base
    assert difference(list(a), list(b), paired=True).low == pytest.approx(0.1)
    unpaired = difference(list(a), list(b), paired=False)
    assert unpaired.low < 0 < unpaired.high
    assert unpaired.estimate == pytest.approx(0.1)


def test_students_interval_is_scipys() -> None:
    sample = np.random.default_rng(0).normal(size=5)
    theirs = stats.ttest_1samp(sample, 0).confidence_interval(0.95)
    assert student(list(sample)) == pytest.approx((sample.mean(), theirs.low, theirs.high))
    bootstrap = interval(list(sample))
    assert student(list(sample)).low < bootstrap.low < bootstrap.high < student(list(sample)).high
    assert student([1.0])[1:] == (-np.inf, np.inf)


def test_quartiles_are_hazens() -> None:
    assert quartiles([1, 2, 3, 4]) == (1.5, 2.5, 3.5)  # MATLAB's quantile
