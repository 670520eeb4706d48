"""Trials of reinforcement learning: stopped and resumed, Explore against autograd, order, film, what the ledger may say."""

import re
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed")
pytest.importorskip("mujoco", reason="MuJoCo is not installed")

import gymnasium
from scipy import stats

from experiments.resuming import assert_goes_on_as_if_never_stopped
from vadam.backends.kernels import is_arithmetic
from vadam_paper.experiments import find
from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.contract import ExperimentError
from vadam_paper.experiments.half_cheetah import plot, table
from vadam_paper.experiments.half_cheetah.film import film, limbs_of, on_its_back
from vadam_paper.experiments.intervals import welch, welch_freedom
from vadam_paper.experiments.ledger import Verdict, entries
from vadam_paper.experiments.results import Recorded, Results, read_results
from vadam_paper.experiments.rl import cells, explore_rule, records
from vadam_paper.experiments.rl.explore import Explore
from vadam_paper.experiments.rl.methods import table_3
from vadam_paper.experiments.rl.trial import Trial
from vadam_paper.experiments.verdicts import trials_needed

EXPERIMENT = find("half-cheetah")
SMALL = replace(
    EXPERIMENT.config("smoke", "authors"),
    block=80,
    stretches=(80, 160),
    episode_steps=40,
    hidden=(12, 10),
    batch_size=16,
)


@pytest.mark.parametrize("method", SMALL.methods)
def test_a_trial_goes_on_from_its_checkpoint_as_if_never_stopped(method: str) -> None:
    assert_goes_on_as_if_never_stopped(SMALL, table_3(SMALL)[method], until=160)


def test_a_later_milestone_resumes_from_the_earlier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record of two stretches has the curve of the first in it, and the first is not trained again."""
    monkeypatch.setattr("vadam_paper.experiments.context.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    advanced = []
    monkeypatch.setattr(Trial, "advance", _counting(Trial.advance, advanced))
    first = cells.trained(SMALL, "vadam-0-80", CellContext(SMALL, "vadam-0-80", tmp_path)).curve.summary()
    both = cells.trained(SMALL, "vadam-0-160", CellContext(SMALL, "vadam-0-160", tmp_path)).curve.summary()
    assert advanced == [0, 80]
    assert both["step"] == [0, 80, 160]
    assert both["mean"][:2] == first["mean"]


def test_a_cell_that_was_killed_between_blocks_goes_on_from_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vadam_paper.experiments.context.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    key, advance, advanced = "vadam-0-160", Trial.advance, []

    def killed_in_the_second_block(self: Trial, until: int) -> None:
        if self.step == 80:
            raise KeyboardInterrupt
        advance(self, until)

    whole = cells.trained(SMALL, key, CellContext(SMALL, key, tmp_path / "whole"))
    monkeypatch.setattr(Trial, "advance", killed_in_the_second_block)
    with pytest.raises(KeyboardInterrupt):
        cells.trained(SMALL, key, CellContext(SMALL, key, tmp_path / "killed"))
    monkeypatch.setattr(Trial, "advance", _counting(advance, advanced))
    resumed = cells.trained(SMALL, key, CellContext(SMALL, key, tmp_path / "killed"))
    assert advanced == [80]
    assert resumed.curve.points == whole.curve.points
    a, b = whole.tensors(), resumed.tensors()
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


def _counting(advance, steps: list[int]):
    def counted(self: Trial, until: int) -> None:
        steps.append(self.step)
        advance(self, until)

    return counted


def test_methods_of_a_trial_share_their_start_and_trials_do_not() -> None:
    first, second, other = (
        Trial(SMALL, table_3(SMALL)[m], n) for m, n in (("vadam", 0), ("sgd-plain", 0), ("vadam", 1))
    )
    a, b, c = (torch.cat([p.flatten() for p in trial.model.actor.parameters()]) for trial in (first, second, other))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


@pytest.mark.parametrize("protocol", ["authors", "text"])
def test_a_trial_is_that_of_its_protocol(protocol: str) -> None:
    """Program and text differ in the gradient's scale, the end of an episode by time, and the initial weights."""
    config = replace(EXPERIMENT.config("paper", protocol), block=40, stretches=(40,), episode_steps=20, test_episodes=2)
    one = Trial(config, table_3(config)["sgd-plain"], 0)
    model, authors = one.model, protocol == "authors"
    assert (model.policy_gradient, model.gamma, model.tau, model.batch_size) == (
        "sum" if authors else "mean", 0.99, 1e-3, 64,
    )  # fmt: skip
    assert model.critic.optimizer.param_groups[0]["lr"] == 1e-3
    actor = [layer for layer in model.actor.modules() if isinstance(layer, torch.nn.Linear)]
    q = model.critic.q_networks[0]
    hidden = {"actor": (actor[1].weight, 400), "critic": (q.second.weight, 406), "action": (q.action.weight, 406)}
    for name, (weight, inputs) in hidden.items():
        cut = 0.8796  # of a normal's deviation is left between ± 2 of them
        wanted = (0.3 if name == "actor" else 0.02 * cut) if authors else (3 * inputs) ** -0.5
        assert float(weight.detach().std()) == pytest.approx(wanted, rel=0.03)
    for last in (actor[-1], q.out):
        assert 0.0025 < float(last.weight.detach().abs().max()) <= 0.003
    if authors:
        assert all(float((layer.bias.detach() - 0.1).abs().max()) < 1e-7 for layer in actor)
        assert not any(layer.bias.any() for layer in (q.first, q.second, q.out))
    else:
        assert all(float(p.detach().abs().max()) <= 406**-0.5 for p in (*q.second.parameters(), q.action.weight))
    one.advance(40)
    assert model.replay_buffer.dones[:40].flatten().nonzero()[0].tolist() == [19, 39]  # time runs out
    ends = model.replay_buffer._get_samples(np.array([18, 19])).dones.flatten().tolist()
    assert ends == [0.0, 1.0 if authors else 0.0]


def test_table_3() -> None:
    settings = {name: method.arguments for name, method in table_3(SMALL).items()}
    assert settings["vadam"] == {
        "lr": 1e-4, "betas": (0.9, 0.999), "num_data": 1, "prior_precision": 1e-8, "init_precision": "prior",
        "sampling_precision": 1e4,
    }  # fmt: skip
    assert settings["vadagrad"] == {"lr": 1e-2, "beta": pytest.approx(0.01), "init_precision": 1e4}
    assert settings["adam-plain"]["lr"] == settings["sgd-plain"]["lr"] == 1e-4
    for name, adam in (("adam-explore", True), ("sgd-explore", False)):
        assert settings[name] == {"lr": 1e-4, "lr_v": 1e-2, "init_precision": 1e4, "on_precision": True, "adam": adam}
    text = table_3(EXPERIMENT.config("paper", "text"))
    assert text["sgd-explore"].arguments["on_precision"] is False


@pytest.mark.parametrize("on_precision", [True, False])
@pytest.mark.parametrize("adam", [True, False])
def test_explore_against_autograd_and_torchs_own_optimizers(on_precision: bool, adam: bool) -> None:
    """Three steps on μ and v, each a leaf of θ = μ + σ(v) ε, by torch's SGD or Adam."""
    torch.manual_seed(0)
    mu, v = torch.randn(5, dtype=torch.float64), torch.rand(5, dtype=torch.float64) + 0.5
    rule = explore_rule.rule(adam=adam, on_precision=on_precision)
    state = rule.init(mu.clone(), init_precision=1.0)._replace(v=v.clone())
    leaves = [mu.clone().requires_grad_(), v.clone().requires_grad_()]
    make = torch.optim.Adam if adam else torch.optim.SGD
    optimizer = make([{"params": [leaves[0]], "lr": 0.02}, {"params": [leaves[1]], "lr": 0.01}])
    for _ in range(3):
        eps = torch.randn(5, dtype=torch.float64)
        sigma = leaves[1].rsqrt() if on_precision else leaves[1].sqrt()
        theta = leaves[0] + sigma * eps
        optimizer.zero_grad()
        (theta.sin() * theta).sum().backward()
        optimizer.step()
        deviation = rule.precision(state).rsqrt()
        at = (state.mu + deviation * eps).requires_grad_()
        (g,) = torch.autograd.grad((at.sin() * at).sum(), at)
        state = rule.update(state, g, g * eps / deviation, alpha=0.02, alpha_v=0.01)
    torch.testing.assert_close([state.mu, state.v], [leaf.detach() for leaf in leaves], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("on_precision", [True, False])
@pytest.mark.parametrize("adam", [True, False])
def test_native_explore_is_the_rule(on_precision: bool, adam: bool) -> None:
    """Each of the four rules has its own native loop; five steps in lock step with the rule on torch's tensors."""
    rule = explore_rule.rule(adam=adam, on_precision=on_precision)
    assert is_arithmetic(rule)
    torch.manual_seed(0)
    layer = torch.nn.Linear(30, 20)
    optimizer = Explore(
        layer.parameters(), 0.01, 1e-3, init_precision=4.0, on_precision=on_precision, adam=adam, backend="native"
    )
    weight = layer.weight
    for _ in range(5):
        mean, precision = weight.detach().clone(), optimizer.posterior().precision["0"]
        optimizer.zero_grad()
        with optimizer.sampled_params():
            deviation = weight.detach() - mean
            layer(torch.ones(1, 30)).square().mean().backward()
        state = deepcopy(dict(optimizer.state[weight]))
        optimizer.step()
        g = weight.grad
        expected = rule.update(rule.State(mean, **state), g, g * deviation * precision, alpha=0.01, alpha_v=1e-3)
        torch.testing.assert_close(weight.detach(), expected.mu, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(optimizer.state[weight]["v"], expected.v, rtol=1e-5, atol=1e-6)
    assert not torch.equal(optimizer.posterior().precision["0"], torch.full_like(weight, 4.0))


def test_explore_keeps_the_variance_positive() -> None:
    layer = torch.nn.Linear(3, 2)
    optimizer = Explore(layer.parameters(), lr_v=1.0, on_precision=False, adam=True, init_precision=1e4)
    for _ in range(20):
        optimizer.zero_grad()
        with optimizer.sampled_params():
            layer(torch.ones(1, 3)).sum().backward()
        optimizer.step()
    precision = torch.cat([p.flatten() for p in optimizer.posterior().precision.values()])
    assert torch.isfinite(precision).all()
    assert float(precision.max()) <= 1.01 / explore_rule.FLOOR


def test_all_trials_reach_the_first_milestone_first() -> None:
    config = EXPERIMENT.config("early", "authors")
    order = list(EXPERIMENT.cells(config))
    assert len(order) == len(set(order)) == (6 * 5 + 2 * 6 + 2 * 9) * 2
    assert {cells.parse_key(key)[2] for key in order[:60]} == {100_000}
    assert {cells.parse_key(key)[2] for key in order[:30]} == {100_000}
    assert [cells.parse_key(key)[1] for key in order[:8]] == [0] * 4 + [1] * 4
    assert {cells.parse_key(key)[0] for key in order[:20]} == {"vadam", "vadagrad", "adam-plain", "sgd-plain"}
    assert {cells.parse_key(key)[0] for key in order[30:42]} == {"vadam", "adam-plain"}
    assert {cells.parse_key(key)[1] for key in order[30:42]} == {5, 6, 7, 8, 9, 10}


def test_more_trials_extend_a_recorded_run() -> None:
    config = EXPERIMENT.config("early", "authors")
    assert replace(config, trials_of={}).fingerprint == config.fingerprint != replace(config, trials=6).fingerprint


def test_presets_are_the_announced_ones() -> None:
    early, paper, quick = (EXPERIMENT.config(preset, "text") for preset in ("early", "paper", "quick"))
    assert (len(early.methods), early.trials, early.stretches[-1]) == (6, 5, 200_000)
    assert early.trials_of == {"vadam": 11, "adam-plain": 11, "vadagrad": 14, "sgd-plain": 14}
    assert (len(paper.methods), paper.trials, paper.stretches[-1]) == (6, 5, 3_000_000)
    assert (quick.methods, quick.trials, quick.stretches) == (("vadam", "adam-plain", "sgd-plain"), 2, (30_000,))
    assert (early.test_episodes, early.block, early.hidden, early.batch_size) == (20, 10_000, (400, 300), 64)


def trial(level: float, slope: float, end: int = 100_000, grown: float = 0.0) -> dict:
    step = list(range(0, end + 1, 10_000))
    mean = [level + slope * s / 1000 for s in step]
    sigma = [0.01] * len(step)
    spread = {"sigma": sigma, "sigma_min": sigma, "sigma_max": sigma, "grown": [None, *[grown] * (len(step) - 1)]}
    return {"step": step, "mean": mean, **spread}


def recorded(**curves: list[dict]) -> Results:
    found = {
        f"{name.replace('_', '-')}-{i}-{t['step'][-1]}": t for name, ts in curves.items() for i, t in enumerate(ts)
    }
    return Results({"authors": Recorded("early", "authors", {"config": {}}, found)})


def verdicts_of(results: Results) -> dict[str, Verdict]:
    return {entry.claim.id: entry.evidence.verdict for entry in entries(EXPERIMENT, results)}


def test_the_ledger_judges_five_trials_and_no_fewer() -> None:
    slow, fast = [trial(10 * i, 1) for i in range(5)], [trial(10 * i, 10) for i in range(5)]
    found = verdicts_of(recorded(vadam=fast, vadagrad=fast, adam_plain=slow, sgd_plain=slow))
    assert found["rl-sgd-plain"] == found["rl-early"] == found["rl-variance"] == Verdict.SUPPORTED
    assert found["rl-sgd-explore"] == found["rl-vadagrad-early"] == found["rl-final"] == Verdict.NOT_RUN
    found = verdicts_of(recorded(vadam=slow, vadagrad=fast, adam_plain=fast, sgd_plain=slow))
    assert found["rl-early"] == Verdict.CONTRADICTED
    assert found["rl-sgd-plain"] == Verdict.UNDECIDED
    assert verdicts_of(recorded(vadam=fast[:4], adam_plain=slow))["rl-early"] == Verdict.NOT_RUN
    growing = [trial(0, 1, grown=0.5) for _ in range(5)]
    assert verdicts_of(recorded(vadagrad=growing))["rl-variance"] == Verdict.CONTRADICTED
    assert set(verdicts_of(Results()).values()) == {Verdict.NOT_RUN}


def test_a_difference_within_the_noise_of_five_trials_is_none() -> None:
    levels = (-900, -400, 0, 400, 900)
    fast, slow = [trial(level + 100, 1) for level in levels], [trial(level, 1) for level in levels]
    found = verdicts_of(recorded(vadam=fast, vadagrad=fast, adam_plain=slow, sgd_plain=slow))
    assert found["rl-early"] == found["rl-sgd-plain"] == Verdict.UNDECIDED
    assert "undecided" in evidence("rl-early", recorded(vadam=fast, adam_plain=slow))


def test_comparable_is_neither_far_apart_nor_unknown() -> None:
    def judged(*levels: tuple[float, float]) -> tuple[Verdict, Verdict]:
        vadam, adam = ([trial(level + k * by, 0, end=3_000_000) for k in range(-2, 3)] for level, by in levels)
        found = verdicts_of(recorded(vadam=vadam, adam_plain=adam, adam_explore=adam))
        return found["rl-catch-up"], found["rl-no-premature"]

    yes, no, maybe = Verdict.SUPPORTED, Verdict.CONTRADICTED, Verdict.UNDECIDED
    assert judged((5000, 50), (5000, 50)) == (yes, yes)
    assert judged((1000, 50), (6000, 50)) == (no, no)
    assert judged((9000, 50), (6000, 50)) == (no, yes)
    assert judged((6000, 3000), (3000, 3000)) == (maybe, maybe)


def test_a_trial_under_way_does_not_shorten_the_others() -> None:
    """Five trials are complete and a sixth is recorded at its first milestone: the five are judged to their end."""
    late = [trial(5000 + 50 * k, 0, end=3_000_000) for k in range(5)]
    early = [trial(50 * k, 0, end=3_000_000) for k in range(5)]
    results = recorded(vadam=[*late, trial(0, 0)], adam_plain=early, adam_explore=late)
    assert verdicts_of(results)["rl-final"] == Verdict.SUPPORTED
    assert "3,000,000 steps; Adam-Explore" in evidence("rl-final", results)
    assert verdicts_of(recorded(vadam=[*early, trial(9, 0)], adam_plain=late))["rl-final"] == Verdict.NOT_RUN
    shorter = recorded(vadam=[*[trial(10 * i, 10) for i in range(5)], trial(0, 0, end=20_000)], adam_plain=early)
    assert "Vadam 570 (5 trials)" in evidence("rl-early", shorter)


def test_the_table_compares_trials_at_one_time_step() -> None:
    run = recorded(vadam=[*[trial(1000, 0)] * 4, trial(1000, 20, end=200_000)])
    (row,) = table.table(run).rows
    assert row[1] == "1 × 200,000, 4 × 100,000"
    assert row[3] == "1400 ± 400"


def evidence(claim: str, results: Results) -> str:
    (text,) = [entry.evidence.text for entry in entries(EXPERIMENT, results) if entry.claim.id == claim]
    return text


def test_the_end_is_not_judged_before_it_is_recorded() -> None:
    """Results of 100,000 steps are no evidence about three million."""
    results = recorded(vadam=[trial(0, 1)] * 5, adam_plain=[trial(0, 1)] * 5, adam_explore=[trial(0, 1)] * 5)
    assert evidence("rl-final", results) == (
        "Trials of 3,000,000 steps so far: Vadam 0 of 5, Adam-Explore 0 of 5, Adam-Plain 0 of 5."
    )


def test_evidence_about_variances_says_how_often_it_was_checked() -> None:
    text = evidence("rl-variance", recorded(vadagrad=[trial(0, 1)] * 5))
    assert text.startswith("Looked at every 10,000 steps, 10 times in each of 5 trials: the largest share")
    shrinking = trial(0, 1) | {"shrunk": [None, *[0.25] * 10], "sigma_min": [0.01, *[0.002] * 10]}
    text = evidence("rl-variance", recorded(vadagrad=[shrinking] * 5))
    assert text.endswith(
        "the smallest to 0.002; at the last look 25% of the variances had shrunk since the one before."
    )


def test_the_note_on_the_shipped_runs_has_their_intervals() -> None:
    """Welch's intervals of the five seeds' speeds, which are the curves' own."""
    runs, (note,) = table.PAPER["runs"], table.notes(Results())
    for run in runs:
        for method in records.NAMES:
            curve = np.interp(np.arange(10_000, 100_001, 10_000), table.PAPER["step"], run[method]["mean"])
            assert np.mean(run[method]["speeds"]) == pytest.approx(curve.mean(), abs=0.5)
    for other, told in (
        ("adam-plain", ("761 [111, 1412], above zero", "−54 [−832, 725], undecided")),
        ("adam-explore", ("666 [1, 1330], above zero", "−448 [−808, −87], below zero")),
    ):
        for run, text in zip(runs, told, strict=True):
            ours, theirs = run["vadam"]["speeds"], run[other]["speeds"]
            by_scipy = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval()
            assert f"[{by_scipy.low:.0f}, {by_scipy.high:.0f}]".replace("-", "−") in text
            assert text in note


def test_the_notes_say_how_far_the_deciding_trials_are() -> None:
    """Two of three trials to go of one method, and none of the other: 2 × 100,000 steps at the price of 0.01 s a step."""
    run = recorded(vadam=[trial(0, 1)], adam_plain=[trial(0, 1)])["authors"]
    run.manifest["config"] = run.config | {"trials_of": {"vadam": 3, "adam-plain": 1}}
    run.manifest["cpu_seconds"] = 2000.0
    (note,) = table._to_go(run)
    assert note.endswith("are recorded of: Vadam 1 of 3, Adam-Plain 1 of 1; the rest takes 0.6 processor hours.")
    run.manifest["config"]["trials_of"] = {"vadam": 1}
    assert table._to_go(run) == []


def test_the_table_has_the_recorded_numbers() -> None:
    """Means and errors are those of the rows, by scipy; SGD-Explore's σ does not move, as docs/reinforcement-learning.md says."""
    results = read_results(Path(__file__).parents[2] / "results", EXPERIMENT)
    if "authors" not in results:
        pytest.skip("half-cheetah is not recorded here")
    found = {method: records.trials(results["authors"], method) for method in records.NAMES}
    rows = {row[0]: row for row in table.table(results).rows}
    for method, name in records.NAMES.items():
        speeds = [records.speed(t, table.UNTIL) for t in found[method]]
        assert rows[name][2] == f"{np.mean(speeds):.0f} ± {stats.sem(speeds):.0f}"
    assert {s for t in found["sgd-explore"] for name in ("sigma_min", "sigma_max") for s in t[name]} == {0.01}


def test_notes_on_what_was_recorded() -> None:
    """The notes quote the rows: the size of the noise at the end, and which cheetahs lie on their backs."""
    standing = {"return": 900.0, "frames": np.tile([0.0, 0.1, 0.0, 0.1], (2, 8, 1)).tolist(), "radii": [0.05] * 8}
    standing["frames"][0][0] = standing["frames"][1][0] = [0.0, 0.5, 1.0, 0.5]
    fallen = {
        **standing,
        "return": 100.0,
        "frames": [[limbs[1], *limbs[:1], *limbs[:6]] for limbs in standing["frames"]],
    }
    results = recorded(vadam=[trial(0, 1) | {"film": strip} for strip in (standing, fallen, fallen)])
    _, exploration, falls = table.notes(results)
    assert "Vadam 0.01 (0.01). As far as this goes, exploration is noise of nearly constant size" in exploration
    assert falls.startswith("In the strips of film 2 of 3 cheetahs are on their backs")
    assert "a return of 100 on average, those of the others 900" in falls
    smaller = trial(0, 1) | {"sigma": [0.01, *[0.005] * 10], "film": standing}
    _, exploration = table.notes(recorded(vadagrad=[smaller]))
    assert exploration.endswith("VadaGrad 0.005 (0.01).")


def test_the_ledger_judges_three_million_steps() -> None:
    end = 3_000_000
    low, high = ([trial(level + 10 * i, 0, end=end) for i in range(5)] for level in (0, 1000))
    curves = {
        "vadam": high,
        "vadagrad": low,
        "adam_plain": high,
        "adam_explore": high,
        "sgd_plain": low,
        "sgd_explore": low,
    }
    found = verdicts_of(recorded(**curves))
    assert Verdict.NOT_RUN not in found.values()
    late = ("rl-sgd-late", "rl-catch-up", "rl-premature", "rl-no-premature")
    assert {found[claim] for claim in late} == {Verdict.SUPPORTED}
    assert found["rl-final"] == Verdict.UNDECIDED
    found = verdicts_of(recorded(**curves | {"vadam": low, "adam_explore": high, "adam_plain": low}))
    assert found["rl-no-premature"] == Verdict.CONTRADICTED
    assert found["rl-final"] == Verdict.UNDECIDED
    found = verdicts_of(recorded(**curves | {"adam_plain": low, "adam_explore": low}))
    assert found["rl-catch-up"] == Verdict.CONTRADICTED


def test_what_would_decide_is_given_in_trials_and_hours() -> None:
    """The proposed number is that at which Welch's interval excludes zero in four of five repetitions."""
    rng = np.random.default_rng(0)

    def sample(level: float, n: int) -> list[dict]:
        return [trial(level + 100 * x, 0) for x in rng.normal(size=n)]

    results = recorded(vadam=sample(110, 5), adam_plain=sample(0, 5))
    results["authors"].manifest["cpu_seconds"] = 3600.0  # for ten trials of 100,000 steps
    plan = next(e.evidence.would_decide for e in entries(EXPERIMENT, results) if e.claim.id == "rl-early")
    found = re.fullmatch(
        r"Vadam against Adam-Plain: (\d+) trials of each decide it with a probability of 80 %, (\d+) more \(([\d.]+) processor hours\)\.",
        plan,
    )
    assert found is not None, plan
    assert int(found[2]) == 2 * (int(found[1]) - 5)
    assert float(found[3]) == pytest.approx(int(found[2]) / 10, abs=0.05)
    gap = 300.0
    pilots = ([-200.0, -100.0, 0.0, 100.0, 200.0], [gap - 200, gap - 100, gap, gap + 100, gap + 200])
    needed = trials_needed(welch(pilots[1], pilots[0]), 5, freedom=welch_freedom(*pilots))
    assert needed is not None
    spread = float(np.std(pilots[0], ddof=1))
    drawn = (rng.normal(gap, spread, (2000, needed)), rng.normal(0, spread, (2000, needed)))
    assert np.mean([welch(a, b).low > 0 for a, b in zip(*drawn, strict=True)]) > 0.78


def test_the_authors_own_runs_go_through_the_same_judges() -> None:
    """The authors' two runs contradict each other about Adam-Explore; the first supports two early claims, the second none."""
    shipped = {entry.claim.id: entry.shipped for entry in entries(EXPERIMENT, Results())}
    early = ("rl-early", "rl-early-explore", "rl-sgd-plain", "rl-sgd-explore", "rl-vadagrad-early")
    first, second = ({claim: shipped[claim][run].verdict for claim in early} for run in ("run 1", "run 2"))
    assert [claim for claim in early if first[claim] == Verdict.SUPPORTED] == ["rl-early", "rl-early-explore"]
    assert Verdict.SUPPORTED not in second.values()
    assert second["rl-early-explore"] == Verdict.CONTRADICTED
    assert shipped["rl-variance"] == {}
    speeds = [
        records.speed(t, 100_000)
        for t in records.trials(EXPERIMENT.part("shipped").runs("rl-early")["run 1"]["authors"], "vadam")
    ]
    assert speeds == pytest.approx(table.PAPER["runs"][0]["vadam"]["speeds"], abs=0.2)


def test_unrest_is_neither_slope_nor_what_comes_later() -> None:
    def restless(t: dict, by: float) -> dict:
        return t | {"mean": [m + by * (-1) ** k for k, m in enumerate(t["mean"])]}

    assert records.unrest(trial(0, 30), 100_000) == pytest.approx(0)
    assert records.unrest(restless(trial(0, 30), 5.0), 100_000) == pytest.approx(10.0)
    calm, fast = [trial(i, 1) for i in range(5)], [trial(i, 50) for i in range(5)]
    assert verdicts_of(recorded(vadam=calm, adam_explore=fast))["rl-unstable"] == Verdict.UNDECIDED
    wild = [restless(t, 100.0 + i) for i, t in enumerate(fast)]
    later = [trial(i, 1, end=200_000) for i in range(5)]
    for t in later:
        t["mean"][11:] = [1000.0 * (-1) ** k for k in range(len(t["mean"]) - 11)]
    assert verdicts_of(recorded(vadam=later, adam_explore=wild))["rl-unstable"] == Verdict.SUPPORTED


def test_without_mujoco_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(*_: object, **__: object) -> None:
        raise gymnasium.error.DependencyNotInstalled("MuJoCo is not installed")

    monkeypatch.setattr(gymnasium, "make", missing)
    with pytest.raises(ExperimentError, match=r'pip install "vadam\[rl\]" \(MuJoCo is not installed\)'):
        cells.trained(SMALL, "vadam-0-80", CellContext(SMALL, "vadam-0-80", tmp_path))


def test_a_prediction_in_the_middle_of_a_step_is_the_means() -> None:
    """The networks of the experiments, too, tell their optimizer when they are not training."""
    one = Trial(SMALL, table_3(SMALL)["vadam"], 0)
    one.model.learn(30)
    x = one.model.get_env().reset()
    mean = one.model.predict(x, deterministic=True)[0]
    one.model._last_obs = x
    one.model.policy.set_training_mode(True)
    acted, _ = one.model._sample_action(0)
    assert not np.array_equal(acted, mean)
    np.testing.assert_array_equal(one.model.predict(x, deterministic=True)[0], mean)


def test_figures_of_nothing_and_of_trials_that_do_not_explore() -> None:
    assert plot.figures(recorded()) == {}
    strip = {"return": 1.0, "radii": [0.05] * 8, "frames": np.zeros((2, 8, 4)).tolist()}
    plain = {name: value for name, value in trial(0, 1).items() if name not in ("sigma", "grown")} | {"film": strip}
    figures = plot.figures(recorded(adam_plain=[plain]))
    assert set(figures) == {"curves", "film"}
    assert figures["film"].get_suptitle() == "Adam-Plain, trial 0, after 100,000 steps: return 1"


def test_the_pose_is_found_again_from_the_limbs() -> None:
    """Any pose, from the segments alone: within the turns that tell angles apart."""
    import mujoco

    from vadam_paper.experiments.half_cheetah.render import pose

    environment = SMALL.make_environment().unwrapped
    rng = np.random.default_rng(0)
    for _ in range(5):
        environment.data.qpos[:] = rng.uniform(-1, 1, 9)
        mujoco.mj_kinematics(environment.model, environment.data)
        wanted, limbs = environment.data.qpos.copy(), limbs_of(environment)
        pose(environment, limbs)
        turned = (environment.data.qpos - wanted + np.pi) % (2 * np.pi) - np.pi
        np.testing.assert_allclose(turned, 0, atol=1e-9)
        np.testing.assert_allclose(limbs_of(environment), limbs, atol=1e-9)


def test_the_film_is_rendered_or_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    from vadam_paper.experiments.half_cheetah import render

    standing = np.zeros((2, 8, 4))
    standing[:, :, 3] = 0.3
    pictures = render.rendered(standing.tolist())
    if pictures is None:
        pytest.skip("there is no OpenGL on this machine")
    assert pictures.shape == (2, render.HEIGHT, render.WIDTH, 3)
    assert pictures.std() > 10
    monkeypatch.setenv("MUJOCO_GL", "nonsense")
    assert render.rendered(standing.tolist()) is None


def test_the_furthest_record_of_a_trial_counts() -> None:
    run = recorded(vadam=[trial(0, 1)])["authors"]
    run.cells["vadam-0-200000"] = trial(0, 1, end=200_000)  # type: ignore[index]
    assert [t["step"][-1] for t in records.trials(run, "vadam")] == [200_000]
    assert records.speed(run["vadam-0-100000"], 100_000) == pytest.approx(np.mean(range(10, 101, 10)))


def test_film_of_a_standing_cheetah() -> None:
    """At rest the torso of one metre is level, 0.7 m above the ground, and all eight limbs are there."""

    class Still:
        def predict(self, observation: np.ndarray, deterministic: bool) -> tuple[np.ndarray, None]:
            return np.zeros(6, dtype=np.float32), None

    environment = replace(SMALL, episode_steps=60).make_environment()
    strip = film(Still(), environment, 60, seed=0)
    frames = np.asarray(strip["frames"])
    assert frames.shape == (12, 8, 4)
    x1, z1, x2, z2 = frames[0, 0]
    assert np.hypot(x2 - x1, z2 - z1) == pytest.approx(1.0, abs=0.01)
    assert 0.4 < z1 < 0.8
    assert frames[:, :, [1, 3]].min() > -0.1
    assert not on_its_back(frames)
    assert on_its_back(frames * [1, -1, 1, -1])
