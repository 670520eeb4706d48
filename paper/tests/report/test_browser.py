"""The page in a real browser: no errors, filters that filter, figures and animation that are drawn."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from vadam_paper.experiments import find
from vadam_paper.experiments.contract import Experiment
from vadam_paper.experiments.ledger import Claim, Evidence, Verdict
from vadam_paper.experiments.runner import run
from vadam_paper.report import build

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
]

PROBE = """
<script>window.failures = []; window.addEventListener("error", (e) => window.failures.push(e.message));</script>
"""

QUESTIONS = """
<script>
window.addEventListener("load", () => setTimeout(() => {
  const visible = () => [...document.querySelectorAll("#claims tbody tr")].filter((r) => r.offsetParent !== null);
  const press = (verdict) => document.querySelector(`.filters button[data-verdict="${verdict}"]`).click();
  const answers = { all: visible().length };
  for (const verdict of ["supported", "contradicted", "undecided", "not-run"]) {
    press(verdict);
    answers[verdict] = visible().map((row) => row.dataset.verdict);
    answers[verdict + "-count"] = document.getElementById("shown").textContent;
  }
  answers.pressed = document.querySelectorAll('.filters button[aria-pressed="true"]').length;
  press("all");
  const list = document.getElementById("artefact");
  list.value = "local-minima";
  list.dispatchEvent(new Event("change"));
  answers.artefact = [...new Set(visible().map((row) => row.dataset.artefact))];
  answers.figures = [...document.querySelectorAll("figure > svg")].map((f) => f.getBoundingClientRect().height);
  const canvas = document.querySelector(".player canvas");
  const slider = document.querySelector(".player input");
  const pixels = () => canvas.toDataURL();
  const end = pixels();
  slider.value = 0;
  slider.dispatchEvent(new Event("input"));
  answers.animated = pixels() !== end && canvas.width > 0;
  answers.step = document.querySelector(".player output").textContent;
  answers.overflow = document.documentElement.scrollWidth - window.innerWidth;
  answers.failures = window.failures;
  document.title = "answers:" + JSON.stringify(answers);
}, 200));
</script>
"""


class Mixed(Experiment):
    """An experiment with a claim of every verdict."""

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (
            Claim("yes", "§1", "Yes.", lambda results: Evidence(Verdict.SUPPORTED, "shown.")),
            Claim("no", "§2", "No.", lambda results: Evidence(Verdict.CONTRADICTED, "the opposite.")),
            Claim("open", "§3", "Open.", lambda results: Evidence(Verdict.UNDECIDED, "both.", "Three more trials.")),
        )


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("page")
    minima, theory = find("local-minima"), find("theory")
    run(minima, minima.config("smoke", "text"), root / "results")
    _as_if_paper(root / "results" / "local-minima", minima)
    mixed = Mixed(minima.name, minima.artefact, minima.title, minima.package, protocols=("text",))
    index = build(root / "results", root / "out", (theory, mixed, find("uci")))
    text = index.read_text().replace("<head>", f"<head>{PROBE}", 1).replace("</body>", f"{QUESTIONS}</body>")
    probed = index.with_name("probed.html")
    probed.write_text(text)
    return probed


def _as_if_paper(folder: Path, experiment: Experiment) -> None:
    """Relabel a smoke run as a paper run: the browser only needs judged claims."""
    config = experiment.config("paper", "text")
    manifest = json.loads((folder / "smoke-text" / "manifest.json").read_text())
    old = manifest["config_hash"]
    (folder / "smoke-text").rename(folder / "paper-text")
    manifest |= {"preset": "paper", "config": config.as_dict(), "config_hash": config.fingerprint}
    (folder / "paper-text" / "manifest.json").write_text(json.dumps(manifest))
    rows = folder / "paper-text" / "rows.jsonl"
    rows.write_text(rows.read_text().replace(old, config.fingerprint))


def ask(page: Path, profile: Path, width: int) -> dict:
    assert CHROMIUM is not None
    flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking"
    flags += " --disable-component-update --disable-sync --enable-logging=stderr --virtual-time-budget=4000 --dump-dom"
    command = [CHROMIUM, *flags.split(), f"--user-data-dir={profile}", f"--window-size={width},900", page.as_uri()]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in answer.stderr, answer.stderr
    found = re.search(r"<title>answers:(.*?)</title>", answer.stdout, re.DOTALL)
    assert found is not None, answer.stdout[:500]
    answers: dict = json.loads(found[1])
    return answers


@pytest.mark.parametrize("width", [1200, 500])
def test_the_page_works(page: Path, tmp_path: Path, width: int) -> None:
    answers = ask(page, tmp_path / "profile", width)
    assert answers["failures"] == []
    assert answers["supported"] == ["supported"]
    assert answers["contradicted"] == ["contradicted"]
    assert answers["undecided"] == ["undecided"]
    assert "Three more trials." in page.read_text()
    assert set(answers["not-run"]) == {"not-run"}
    assert answers["all"] == 3 + len(answers["not-run"])
    assert answers["supported-count"] == "1"
    assert answers["pressed"] == 1
    assert answers["artefact"] == ["local-minima"]
    assert len(answers["figures"]) == 1
    assert all(height > 50 for height in answers["figures"])
    assert answers["animated"]
    assert answers["step"] == "step 0, τ = 1.00"
    assert answers["overflow"] <= 0  # nothing makes the page scroll sideways
