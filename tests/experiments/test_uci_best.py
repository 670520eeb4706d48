"""Beyond Table 1: the mixture's scores against scipy, and that nothing of the test part decides anything."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from vadam import data
from vadam.ensemble import train
from vadam.experiments import find
from vadam.experiments.results import read_results
from vadam.experiments.runner import run
from vadam.experiments.uci import best, methods
from vadam.experiments.uci.config import Best, preset
from vadam.experiments.uci.networks import at, final_members, folds

pytestmark = pytest.mark.skipif(not data.available("boston"), reason="the Boston data are not on this machine")

UCI = find("uci")


@pytest.fixture
def config() -> Best:
    config = preset("smoke", "best")
    assert isinstance(config, Best)
    return replace(config, sets=("boston",), splits=2, members=3, epochs=3)


def test_scores_are_those_of_the_averaged_density(config: Best) -> None:
    points = [{"prior_precision": 2.0, "noise_precision": 5.0}, {"prior_precision": 1.0, "noise_precision": 9.0}]
    members = at(points, final_members(config, "boston", None))
    found = best.final(config, "boston", members, 1)
    mixtures = [m for member in members for m in best._mixture(config, member)]
    stack = train(mixtures, **methods.setting(config, "vadam", "boston")).stack
    for split, member in enumerate(members):
        x, y = member.x[member.test], member.y[member.test]
        deviation = np.std(member.y[member.train], ddof=1) / np.sqrt(member.noise_precision)
        f = stack[range(3 * split, 3 * split + 3)].outputs(x, config.evaluation_samples).numpy()[..., 0]
        log_p = norm.logpdf(y, f, deviation)  # [members, samples, rows]
        for scores, used in ((found, log_p[:1]), (found["mixture"], log_p)):
            used = used.reshape(-1, len(y))
            pointwise = np.mean(logsumexp(used, axis=0) - np.log(len(used)))
            joint = (logsumexp(used.sum(1)) - np.log(len(used))) / len(y)
            assert scores["log_likelihood"][split] == pytest.approx(pointwise, rel=1e-5)
            assert scores["joint_log_likelihood"][split] == pytest.approx(joint, rel=1e-5)
        rmse = np.sqrt(np.mean((y - f.mean((0, 1))) ** 2))
        assert found["mixture"]["rmse"][split] == pytest.approx(rmse, rel=1e-5)


def test_members_of_mixtures_and_folds_share_no_seed(config: Best) -> None:
    config = replace(config, splits=20, members=20)
    finals = final_members(config, "boston", None)
    seeds = [m.seed for f in finals for m in (*best._mixture(config, f), *folds(config, f))]
    assert len(set(seeds)) == len(seeds)


def test_test_targets_do_not_touch_the_search(config: Best, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With other targets in the test rows the same hyper-parameters are found, and other scores."""
    original = data.load

    def spoilt(name: str, **options):
        table = original(name, **options)
        y = table.y.copy()
        for _, test in data.splits(name)[:1]:
            y[test] = y[test][::-1] + 7.0
        return replace(table, y=y)

    monkeypatch.setattr("vadam.experiments.uci.networks.data.load", spoilt)
    one = replace(config, splits=1)
    run(UCI, one, tmp_path / "spoilt")
    monkeypatch.undo()
    run(UCI, one, tmp_path / "one")
    rows = {name: _row(tmp_path / name) for name in ("spoilt", "one")}
    assert rows["spoilt"]["point"] == rows["one"]["point"]
    assert rows["spoilt"]["value"] == rows["one"]["value"]
    assert rows["spoilt"]["log_likelihood"] != rows["one"]["log_likelihood"]


def test_table(tmp_path: Path) -> None:
    config = preset("smoke", "best")
    if not data.available("yacht"):
        pytest.skip("the yacht data are not on this machine")
    run(UCI, config, tmp_path)
    (table,) = UCI.part("table").more_tables(read_results(tmp_path, UCI))
    assert [row[0] for row in table.rows] == ["Boston", "Yacht"]
    assert table.rows[0][1] == "-2.402 ± 0.042"


def _row(out: Path) -> dict:
    from vadam.experiments.store import read_rows

    (path,) = out.rglob("rows.jsonl")
    first = path.read_text().split('"config":"')[1][:16]
    return read_rows(path, first)["vadam-boston"]["result"]
