"""Table 1: its folds against scikit-learn's, its tests against scipy's, its verdicts, and what may go wrong in a sweep."""

import errno
import json
import math
import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from scipy import stats
from sklearn.model_selection import KFold

from vadam.cli.errors import exit_on_error
from vadam.ensemble import MLP, Member, Scaling, train
from vadam.ensemble.members import rows_of
from vadam_paper import data
from vadam_paper.experiments import ExperimentError, find
from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.jsonify import dumps, jsonify
from vadam_paper.experiments.ledger import Verdict, entries
from vadam_paper.experiments.results import Recorded, Results, read_results, read_run
from vadam_paper.experiments.runner import run, run_folder
from vadam_paper.experiments.store import read_rows
from vadam_paper.experiments.uci import ablation, comparison, convergence, methods, plot, split_networks, table
from vadam_paper.experiments.uci.config import Config, preset
from vadam_paper.experiments.uci.run import cells

UCI = find("table1")
SMALL = replace(
    preset("smoke", "authors"), sets=("boston",), methods=("vadam", "bbvi"), trials=4, startup=2, evaluation_samples=100
)
needs_boston = pytest.mark.skipif(not data.available("boston"), reason="the Boston data are not on this machine")
BY_OTHER_PROTOCOLS = {"uci-dropout-converged", "uci-corrected"}
"""Claims that the authors' protocol does not decide."""


def rows(out: Path, config: Config = SMALL) -> dict[str, dict]:
    lines = (run_folder(out, config) / "rows.jsonl").read_text().splitlines()
    return {row["cell"]: row["result"] for row in map(json.loads, lines)}


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """Limit the size of files: a write is cut short, and the next one fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not data.available("boston"):
        pytest.skip("the Boston data are not on this machine")
    out = tmp_path_factory.mktemp("whole")
    run(UCI, SMALL, out)
    return out


@pytest.fixture(scope="module")
def whole(out: Path) -> dict[str, dict]:
    return rows(out)


class TestNetworks:
    @needs_boston
    def test_folds_are_the_authors_and_see_no_test_row(self) -> None:
        config = preset("paper", "authors")
        for member in split_networks.final_members(config, "boston", None)[:3]:
            theirs = KFold(5, shuffle=True, random_state=123).split(member.train)
            for fold, (train_rows, test_rows) in zip(split_networks.folds(config, member), theirs, strict=True):
                assert set(fold.train) == set(member.train[train_rows])
                assert set(fold.test) == set(member.train[test_rows])
                assert not {*fold.train, *fold.test} & set(member.test)

    @needs_boston
    def test_every_network_has_its_own_seed(self) -> None:
        config = preset("paper", "authors")
        finals = split_networks.final_members(config, "boston", None)
        seeds = [n.seed for final in finals for n in (final, *split_networks.folds(config, final))]
        assert len(set(seeds)) == len(seeds) == 20 * 6

    def test_first_weights_are_those_of_the_authors_seed(self) -> None:
        torch.manual_seed(123)
        theirs = [torch.nn.Linear(13, 50), torch.nn.Linear(50, 1)]
        ours = split_networks.first_weights(preset("paper", "authors"), 13)
        assert ours is not None
        for layer, name in zip(theirs, ("0", "2"), strict=True):
            assert torch.equal(ours[f"{name}.weight"], layer.weight)
            assert torch.equal(ours[f"{name}.bias"], layer.bias)
        assert split_networks.first_weights(preset("paper", "text"), 13) is None

    def test_settings_of_the_program(self) -> None:
        config = preset("paper", "authors")
        assert [methods.setting(config, m, "yacht")["method"].samples for m in ("vadam", "bbvi", "vogn")] == [
            10,
            20,
            10,
        ]
        assert [methods.setting(config, m, "naval")["method"].samples for m in ("vadam", "bbvi", "vogn")] == [5, 10, 5]
        assert [methods.batch_size(name) for name in config.sets] == [32] * 4 + [128] * 4
        assert (config.splits, config.trials, config.startup, config.folds) == (20, 30, 5, 5)
        assert (config.epochs, config.hidden, config.evaluation_samples, config.first_weights) == (40, 50, 100, 123)
        assert config.objective == "joint_log_likelihood"
        for name in config.sets:
            vadam, bbvi, vogn, vprop, dropout = (methods.setting(config, m, name)["method"] for m in config.methods)
            assert {m.settings["lr"] for m in (vadam, bbvi, vogn, vprop, dropout)} == {0.01}
            assert {m.settings["betas"] for m in (vadam, bbvi, dropout)} == {(0.9, 0.99)}
            assert {m.settings["beta"] for m in (vogn, vprop)} == {0.99}
            assert [m.settings["init_precision"] for m in (vadam, vogn, bbvi)] == ["prior", "prior", 10.0]
            narrow = name in ("power", "naval")
            for method in ("vadam", "bbvi", "vprop"):
                space = {axis: tuple(np.log(bounds)) for axis, bounds in methods.space(config, method, name).items()}
                assert space == {
                    "prior_precision": pytest.approx((-3 if narrow else -4, 4)),
                    "noise_precision": pytest.approx((1 if narrow else 0, 5)),
                }
            assert methods.space(config, "mc-dropout", name)["dropout"] == (0.005, 0.1)
            assert methods.space(config, "vogn", name)["lr"] == (0.003, 0.3)
        # VOGN is not among the authors' methods.
        assert [method for method in config.methods if methods.robust(config, method)] == ["vogn"]
        assert methods.robust(preset("paper", "best"), "vadam")
        assert methods.objective(config, "mc-dropout") == "log_likelihood"
        assert methods.objective(preset("paper", "text"), "vadam") == "log_likelihood"

    def test_the_pair_of_the_table_comes_first_set_by_set(self) -> None:
        keys = list(cells(preset("paper", "authors")))
        assert keys[:4] == ["vadam-yacht", "bbvi-yacht", "vadam-boston", "bbvi-boston"]
        assert keys[16:18] == ["vadam-kin8nm.8", "bbvi-kin8nm.8"]
        assert len(keys) == 42
        assert set(keys[:16]) == {f"{m}-{s}" for m in ("vadam", "bbvi") for s in comparison.SETS}

    def test_the_printed_rates_are_the_programs_the_other_way_round(self) -> None:
        config = preset("paper", "text")
        assert list(cells(config))[16:24] == [f"vadam-printed-{name}" for name in config.sets]
        printed, program = (methods.setting(config, m, "energy")["method"] for m in ("vadam-printed", "vadam"))
        assert printed == program.replace(betas=(0.99, 0.9))
        assert methods.space(config, "vadam-printed", "naval") == methods.space(config, "vadam", "naval")

    @pytest.mark.skipif(not data.available("kin8nm"), reason="the kin8nm data are not on this machine")
    def test_one_split_twenty_times_as_the_authors_loader_has_it(self) -> None:
        config = preset("paper", "authors")
        members = split_networks.final_members(config, "kin8nm.8", None)
        train_rows, test_rows = data.splits("kin8nm")[8]
        assert len(members) == 20
        assert len({member.seed for member in members}) == 20
        assert all(np.array_equal(member.train, train_rows) for member in members)
        assert all(np.array_equal(member.test, test_rows) for member in members)
        assert (split_networks.searches(config, "kin8nm.8"), split_networks.searches(config, "kin8nm")) == (1, 20)
        settings = [methods.setting(config, "vadam", name) for name in ("kin8nm.8", "kin8nm")]
        assert repr(settings[0]) == repr(settings[1])

    @pytest.mark.skipif(not data.available("naval"), reason="the naval data are not on this machine")
    def test_navals_constant_features(self) -> None:
        """Two columns hold one number each: they become zeros, and the network learns from the others."""
        config = preset("smoke", "authors")
        members = split_networks.final_members(config, "naval", None)
        x, y = rows_of(members[0], members[0].train, likelihood="gaussian", outputs=1)
        constant = (x == x[0]).all(0)
        assert constant.sum() == 2
        scaled = Scaling.of(x, y, inputs=True, targets=True).x(x)
        assert scaled[:, constant].abs().max() < 1e-12
        torch.testing.assert_close(scaled[:, ~constant].std(0), torch.ones(14, dtype=torch.float64))
        network, method = MLP(16, 50, 1), methods.setting(config, "vadam", "naval")["method"]
        at_a_good_point = [replace(m, prior_precision=20.0, noise_precision=30.0) for m in members]
        result = train(at_a_good_point, network, method, epochs=3, batch_size=128, evaluation_samples=20)
        assert result.scores["rmse"].max() < 0.8 * y.std()  # which is what predicting the mean would have

    @pytest.mark.skipif(not data.available("wine"), reason="the wine data are not on this machine")
    def test_duplicates_stay_where_the_published_splits_put_them(self) -> None:
        """240 wines stand there twice or more. None is dropped, and some are on both sides of a split, as in Gal's."""
        table = data.load("wine")
        rows = np.column_stack([table.X, table.y])
        assert len(np.unique(rows, axis=0)) == len(rows) - 240
        member = split_networks.final_members(preset("smoke", "authors"), "wine", None)[0]
        assert sorted([*member.train, *member.test]) == list(range(len(rows)))
        known = {row.tobytes() for row in rows[member.train]}
        assert sum(row.tobytes() in known for row in rows[member.test]) > 20


class TestComparison:
    def test_paired_test_is_scipys(self) -> None:
        rng = np.random.default_rng(0)
        a, b = rng.normal(size=20), rng.normal(0.5, size=20)
        assert comparison.paired(a - b).p == pytest.approx(stats.ttest_rel(a, b).pvalue)

    @pytest.mark.parametrize(
        "gains", [np.zeros(20), np.full(20, 0.3), np.array([1.0, np.nan]), np.array([1.0, -np.inf])]
    )
    def test_no_verdict_where_there_is_nothing_to_test(self, gains: np.ndarray) -> None:
        assert comparison.paired(gains).sign == 0

    def test_standard_error_is_the_authors(self) -> None:
        mean = comparison.mean([1.0, 2.0, 3.0, 6.0])
        assert mean == pytest.approx((3.0, np.std([1, 2, 3, 6]) / 2))

    def test_distance_counts_the_rounding(self) -> None:
        ours, papers = comparison.Mean(0.104, 0.0005), comparison.Mean(0.10, 0.0)
        assert comparison.distance(ours, papers) == pytest.approx(0.004 / math.hypot(0.0005, 0.01 / math.sqrt(12)))

    def test_which_log_likelihood_is_printed(self) -> None:
        assert comparison.paper("vadam", "boston", "joint_log_likelihood") == (-2.85, 0.07)
        assert comparison.paper("vadam", "boston", "log_likelihood") is None
        assert comparison.paper("mc-dropout", "boston", "log_likelihood") == (-2.46, 0.06)
        assert comparison.paper("vogn", "boston", "rmse") is None

    def test_epochs_saved(self) -> None:
        fast, slow = np.array([[3.0, 1.0, 1.0, 1.0]] * 2), np.array([[4.0, 3.0, 2.0, 1.04]] * 2)
        made = recorded({"vadam-boston": {"curve": {"rmse": fast}}, "bbvi-boston": {"curve": {"rmse": slow}}})
        assert convergence.epochs_saved(made, "vadam", "bbvi", "boston").estimate == 2.0

    @pytest.mark.parametrize(("who", "saved"), [("bbvi", 3.0), ("vadam", -1.0)])
    def test_a_run_that_diverges_at_the_end_arrives_after_the_last_epoch(self, who: str, saved: float) -> None:
        curves = {"vadam": np.array([[3.0, 1.0, 1.0, 1.0]] * 2), "bbvi": np.array([[4.0, 3.0, 2.0, 1.04]] * 2)}
        curves[who][:, -1] = np.nan
        made = recorded({f"{name}-boston": {"curve": {"rmse": curve}} for name, curve in curves.items()})
        assert convergence.epochs_saved(made, "vadam", "bbvi", "boston").estimate == saved

    def test_a_run_that_leaves_the_target_again_has_not_arrived(self) -> None:
        spiky, steady = np.array([[1.0, 9.0, 1.0, 1.0]] * 2), np.array([[4.0, 1.0, 1.0, 1.0]] * 2)
        never = np.array([[4.0, 3.0, 2.0, np.nan]] * 2)
        target = np.array([1.05, 1.05])
        assert convergence._arrival(spiky, target).tolist() == [3.0, 3.0]
        assert convergence._arrival(steady, target).tolist() == [2.0, 2.0]
        assert convergence._arrival(never, target).tolist() == [5.0, 5.0]

    def test_a_method_that_diverges_has_lost_and_does_not_agree_with_the_paper(self) -> None:
        results = made_up(comparison.SETS, {})
        run = results["authors"]
        before = table._far_off(run)[0]
        for metric in ("rmse", "joint_log_likelihood"):
            run.cells["bbvi-boston"][metric][3] = np.nan
        assert comparison.compare(run, "vadam", "bbvi", "boston", "rmse").sign == 1
        assert comparison.compare(run, "bbvi", "vadam", "boston", "rmse").sign == -1
        after = table._far_off(run)[0]
        assert "BBVI on boston, RMSE (diverged)" in after
        assert int(after.split()[0]) <= int(before.split()[0])
        rows = {row[0]: row for row in table.table(results).rows}
        assert rows["Boston, RMSE"][2:4] == ("diverged", "–")

    def test_what_diverged_is_read_back_and_shown(self) -> None:
        """The store writes null for what is not finite: tables, figures and the ledger read it as diverged."""
        made = made_up(comparison.SETS, {})["authors"].cells
        for scores in (made["bbvi-boston"], made["vadam-yacht"]["vprop"]):
            for metric in comparison.METRICS:
                scores[metric][3] = -np.inf
            scores["curve"]["rmse"] = np.where(np.arange(40) > 20, np.nan, scores["curve"]["rmse"])
        results = Results({"authors": recorded(json.loads(dumps(jsonify(made))))})
        assert results["authors"]["bbvi-boston"]["rmse"][3] is None
        not_run = {e.claim.id for e in entries(UCI, results) if e.evidence.verdict == Verdict.NOT_RUN}
        assert not_run == BY_OTHER_PROTOCOLS
        assert verdict(results, "uci-comparable") == Verdict.CONTRADICTED
        rows = {row[0]: row for shown in table.more_tables(results) for row in shown.rows}
        assert "diverged" in rows["Boston, RMSE"]
        assert set(plot.figures(results)) == set(plot.CAPTIONS)

    def test_best_with_a_posterior_that_diverged(self) -> None:
        cell = {metric: [None, 1.0] for metric in comparison.METRICS} | {"noise_precision": [1.0, 1.0]}
        made = Recorded("paper", "best", {"config": preset("paper", "best").as_dict()}, {"vadam-boston": cell})
        cell["mixture"] = {metric: [1.0, 1.0] for metric in comparison.METRICS}
        (row,) = table._best(made).rows
        assert (row[3], row[-1]) == ("diverged", "mixture")


def recorded(cells: dict[str, dict]) -> Recorded:
    config = preset("paper", "authors").as_dict()
    return Recorded("paper", "authors", {"config": config, "cpu_seconds": 1.0}, cells)


def made_up(sets: tuple[str, ...], gain: dict[str, float | dict[str, float]]) -> Results:
    """Return results in which every method has its gain over BBVI, with a little noise; a smaller RMSE is better."""
    rng = np.random.default_rng(0)
    cells = {}
    for method in comparison.NAMES:
        for name in sets:
            by = gain.get(method, 0.0)
            level = (by[name] if isinstance(by, dict) else by) + 0.01 * rng.normal(size=20)
            curve = {"rmse": np.linspace(3, 1, 40)[None] - level[:, None]}
            scores = {"rmse": 3 - level, "joint_log_likelihood": level, "log_likelihood": level}
            cells[f"{method}-{name}"] = {**scores, "curve": curve, "vprop": {**scores, "curve": curve}}
    return Results({"authors": recorded(cells)})


def verdict(results: Results, claim: str) -> Verdict:
    return next(entry.evidence.verdict for entry in entries(UCI, results) if entry.claim.id == claim)


class TestClaims:
    def test_an_incomplete_sweep_has_no_verdicts_but_says_how_it_stands(self) -> None:
        for entry in entries(UCI, made_up(("yacht", "boston"), {})):
            assert entry.evidence.verdict == Verdict.NOT_RUN
            assert entry.claim.id in BY_OTHER_PROTOCOLS or "So far 2 of 8 sets" in entry.evidence.text

    def test_verdicts_follow_the_numbers(self) -> None:
        alike = made_up(comparison.SETS, {"mc-dropout": 0.5})
        ahead = made_up(comparison.SETS, {"vadam": 0.5, "vogn": 0.5})
        yes, no, maybe = Verdict.SUPPORTED, Verdict.CONTRADICTED, Verdict.UNDECIDED
        assert [verdict(r, "uci-comparable") for r in (alike, ahead)] == [yes, no]
        assert [verdict(r, "uci-dropout") for r in (alike, ahead)] == [yes, no]
        assert [verdict(r, "uci-vogn") for r in (alike, ahead)] == [yes, no]
        assert [verdict(r, "uci-trend") for r in (alike, ahead)] == [no, maybe]  # a quarter of the epochs is the margin
        assert verdict(made_up(comparison.SETS, {"vadam": 0.8, "vogn": 0.8}), "uci-trend") == yes
        assert [verdict(r, "uci-quality") for r in (alike, ahead)] == [yes, no]
        assert [verdict(r, "uci-rmse") for r in (alike, ahead)] == [maybe, no]

    @pytest.mark.parametrize(("claim", "metric"), [("uci-rmse", "rmse"), ("uci-loglik", "joint_log_likelihood")])
    def test_the_bold_face_is_judged_by_signs_and_significant_reversals(self, claim: str, metric: str) -> None:
        """A sign that is the other way round contradicts it where the t-test is sure, and leaves it open where it is not."""
        printed = {name: comparison.printed_sign(name, metric) for name in comparison.SETS}
        assert sum(map(abs, printed.values())) >= 6
        gains = {name: 0.5 * sign for name, sign in printed.items()}
        assert verdict(made_up(comparison.SETS, {"vadam": gains}), claim) == Verdict.SUPPORTED
        for name, sign in printed.items():
            results = made_up(comparison.SETS, {"vadam": gains | {name: -0.5 * sign or 0.5}})
            assert verdict(results, claim) == (Verdict.CONTRADICTED if sign else Verdict.SUPPORTED)
            barely = made_up(comparison.SETS, {"vadam": gains})["authors"]
            for scores, better in (("rmse", -1), ("joint_log_likelihood", 1)):
                base, wiggle = barely.cells[f"bbvi-{name}"][scores], np.tile([-1.0, 1.2], 10)
                barely.cells[f"vadam-{name}"][scores] = base - better * sign * wiggle
            expected = Verdict.UNDECIDED if sign else Verdict.SUPPORTED
            assert verdict(Results({"authors": barely}), claim) == expected

    def test_far_better_on_half_the_sets_and_far_worse_on_the_others_is_not_similar(self) -> None:
        def balanced(by: float) -> Results:
            gains = {name: by * (-1) ** k for k, name in enumerate(comparison.SETS)}
            return made_up(comparison.SETS, {"vogn": gains})

        assert verdict(balanced(0.2), "uci-vogn") == Verdict.SUPPORTED
        assert verdict(balanced(1.0), "uci-vogn") == Verdict.CONTRADICTED

    def test_better_is_similar_enough_and_worse_is_not(self) -> None:
        """Ahead of both on all sets, or behind them, by 0.1 nats: the claim is that VOGN is no worse."""
        assert verdict(made_up(comparison.SETS, {"vogn": 0.1}), "uci-vogn") == Verdict.SUPPORTED
        assert verdict(made_up(comparison.SETS, {"vogn": -0.1}), "uci-vogn") == Verdict.CONTRADICTED

    def test_nothing_recorded_under_the_authors_protocol(self) -> None:
        text_alone = Results({"text": made_up(("yacht",), {})["authors"]})
        assert {entry.evidence.verdict for entry in entries(UCI, text_alone)} == {Verdict.NOT_RUN}


class TestSweep:
    def test_a_changed_protocol_does_not_go_on_with_the_old_search(self, tmp_path: Path) -> None:
        changed = (SMALL, replace(SMALL, first_weights=None), replace(SMALL, hidden=20), replace(SMALL, revision=7))
        journals = {CellContext(config, "vadam-boston", tmp_path).journal for config in changed}
        assert len(journals) == len(changed)

    @needs_boston
    def test_a_search_of_another_version_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def stop(fraction: float, key: str) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(UCI, SMALL, tmp_path, progress=stop)
        monkeypatch.setattr(methods, "robust", lambda config, method: True)
        with pytest.raises(
            ExperimentError, match=r"The search of vadam on boston cannot go on: .*robust.*remove the file"
        ):
            run(UCI, SMALL, tmp_path)

    def test_a_row_has_all_scores_of_every_split(self, whole: dict[str, dict]) -> None:
        for cell, result in whole.items():
            for metric in comparison.METRICS:
                assert len(result[metric]) == SMALL.splits
                assert np.isfinite(result[metric]).all()
            assert np.asarray(result["curve"]["rmse"]).shape == (SMALL.splits, SMALL.epochs)
            assert np.asarray(result["curve"]["rmse"])[:, -1] == pytest.approx(result["rmse"], rel=0.2), cell
            assert ("vprop" in result) == cell.startswith("vadam")

    @needs_boston
    @pytest.mark.parametrize("rounds", [1, 2])
    def test_stopped_in_the_middle_of_a_search(self, tmp_path: Path, whole: dict[str, dict], rounds: int) -> None:
        """A resumed search gives the same numbers to the last digit and repeats no trial."""
        seen = []

        def stop(fraction: float, key: str) -> None:
            seen.append(fraction)
            if len(seen) == rounds:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(UCI, SMALL, tmp_path, progress=stop)
        journal = CellContext(SMALL, "vadam-boston", run_folder(tmp_path, SMALL)).journal
        assert len(journal.read_text().splitlines()) == 1 + SMALL.splits * (1 + rounds)
        run(UCI, SMALL, tmp_path)
        assert rows(tmp_path) == whole
        assert not journal.exists()

    @needs_boston
    def test_two_processes(self, tmp_path: Path, whole: dict[str, dict]) -> None:
        run(UCI, SMALL, tmp_path, jobs=2)
        assert rows(tmp_path) == whole

    @needs_boston
    def test_a_second_sweep_on_the_folder_is_refused(self, tmp_path: Path, whole: dict[str, dict]) -> None:
        refusals = []

        def start_another(fraction: float, key: str) -> None:
            if not refusals:
                with pytest.raises(ExperimentError, match=f"is in use by another run \\(process {os.getpid()}\\)") as e:
                    run(UCI, SMALL, tmp_path)
                refusals.append(e)

        run(UCI, SMALL, tmp_path, progress=start_another)
        assert refusals
        assert rows(tmp_path) == whole

    @needs_boston
    def test_no_space_left_in_a_search(self, tmp_path: Path, whole: dict[str, dict]) -> None:
        """A limit on the size of files cuts the second round short, as a full disk does; the first is kept."""
        journal = CellContext(SMALL, "vadam-boston", run_folder(tmp_path, SMALL)).journal
        with files_up_to(2_100), pytest.raises(OSError, match="File too large"):
            run(UCI, SMALL, tmp_path)
        first_round = SMALL.splits * SMALL.startup
        kept = journal.read_text().splitlines()[1 : 1 + first_round]
        assert [json.loads(line)["trial"] for line in kept] == [0, 1] * SMALL.splits
        asked = []
        run(UCI, SMALL, tmp_path, progress=lambda fraction, key: asked.append(key))
        assert asked.count("vadam-boston") == SMALL.trials - SMALL.startup + 1  # rounds, and the end
        assert rows(tmp_path) == whole

    @needs_boston
    def test_no_space_left_for_a_row(self, tmp_path: Path, out: Path, whole: dict[str, dict]) -> None:
        first, second = (run_folder(out, SMALL) / "rows.jsonl").read_bytes().splitlines(keepends=True)
        rounds = 1 + SMALL.trials - SMALL.startup
        asked: list[str] = []
        disk = ExitStack()

        def fill(fraction: float, key: str) -> None:
            asked.append(key)
            if asked.count("bbvi-boston") == rounds:
                disk.enter_context(files_up_to(len(first) + len(second) // 2))

        with disk, pytest.raises(OSError, match="File too large"):
            run(UCI, SMALL, tmp_path, progress=fill)
        assert list(read_rows(run_folder(tmp_path, SMALL) / "rows.jsonl", SMALL.fingerprint)) == ["vadam-boston"]
        asked.clear()
        run(UCI, SMALL, tmp_path, progress=lambda fraction, key: asked.append(key))
        assert asked == ["bbvi-boston"]  # its end: all its rounds were on the disk
        assert rows(tmp_path) == whole

    def test_a_full_disk_is_explained(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(typer.Exit), exit_on_error(False, resume_command="vadam run uci"):
            raise OSError(errno.ENOSPC, "No space left on device")
        said = " ".join(capsys.readouterr().err.split())
        assert "Finished results are kept. Free some space and continue with: vadam run uci" in said

    def test_a_network_that_diverges_spoils_no_other(self) -> None:
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(40, 2)), rng.normal(size=40)
        calm = Member(x, y, train=np.arange(30), test=np.arange(30, 40), seed=1)
        config = preset("smoke", "authors")
        method = methods.setting(config, "vadam", "boston")["method"]
        result = train([calm, replace(calm, lr=1e30)], MLP(2, 5, 1), method, epochs=2, evaluation_samples=5)
        assert result.diverged.tolist() == [False, True]
        assert math.isfinite(result.scores["rmse"][0])
        assert result.scores["joint_log_likelihood"][1] == -math.inf

    @needs_boston
    def test_a_part_of_the_sweep_is_shown_as_a_part(self, tmp_path: Path) -> None:
        """The table, its notes and the figures, from one cell of many."""
        config = preset("smoke", "authors")

        def stop(fraction: float, key: str) -> None:
            if key == "bbvi-yacht":
                raise KeyboardInterrupt

        if not data.available("yacht"):
            pytest.skip("the yacht data are not on this machine")
        with pytest.raises(KeyboardInterrupt):
            run(UCI, config, tmp_path, progress=stop)
        results = read_results(tmp_path, UCI)
        assert set(results["authors"].cells) == {"vadam-yacht"}
        assert "Vadam 1, BBVI 0" in UCI.part("table").notes(results)[0]
        assert any("–" in row for row in UCI.part("table").table(results).rows)
        assert set(UCI.part("plot").figures(results)) == set(UCI.part("plot").CAPTIONS)


class TestExamine:
    def test_nothing_changed_gives_what_is_recorded(self, out: Path) -> None:
        recorded = read_run(run_folder(out, SMALL))
        assert recorded is not None
        for cell in ("vadam-boston", "bbvi-boston"):
            for metric, values in ablation.again(recorded, SMALL, cell).items():
                np.testing.assert_allclose(values, recorded[cell][metric], rtol=1e-5)

    @pytest.mark.parametrize(
        "change", ["batch_size", "epochs", "samples", "prior_precision", "noise_precision", "seed", "one_seed"]
    )
    def test_every_change_changes_something(self, out: Path, change: str) -> None:
        recorded = read_run(run_folder(out, SMALL))
        assert recorded is not None
        scores = ablation.again(recorded, SMALL, "vadam-boston", **{change: 17})
        assert not np.allclose(scores["rmse"], recorded["vadam-boston"]["rmse"], rtol=1e-5)

    def test_a_cell_that_is_not_there(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("sys.argv", ["examine", "vadam-boston", "--results", str(tmp_path)])
        with pytest.raises(SystemExit):
            ablation.main()
        assert "vadam-boston is not recorded" in capsys.readouterr().err
