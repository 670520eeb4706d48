"""The live page: its equations against the Python rules on the same noise, its exact posterior, and the page in a browser."""

import inspect
import json
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import vadam
from vadam import data, rules
from vadam.demo import live, page
from vadam.demo.trainings import Results, Size
from vadam.exact import logistic
from vadam.exact.grid import grid_posterior

NODE = shutil.which("node")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SOURCES = Path(live.__file__).parent

needs_node = pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
METHODS = {
    "adam": (rules.adam, False),
    "vadam": (rules.vadam, False),
    "corrected": (rules.vadam, True),
    "vogn": (rules.vogn, False),
}
X, Y = data.murphy_like()
ROWS = np.column_stack([X, Y]).tolist()
POSTERIOR = {
    "start": [1.0, 3.5],
    "alpha": 0.1,
    "lam": 0.1,
    "tau": 1.0,
    "anneal": False,
    "M": 10,
    "seed": 1,
    "steps": 120,
}
LANDSCAPE = {
    "start": [0.8, 0.8],
    "alpha": 0.01,
    "lam": 1.0,
    "tau": 1.0,
    "anneal": True,
    "M": 4,
    "seed": 1,
    "steps": 120,
}
SETTINGS = {
    "posterior": ("posterior", POSTERIOR),
    "posterior, one example": ("posterior", POSTERIOR | {"M": 1, "seed": 7, "lam": 2.0}),
    "posterior, half tau": ("posterior", POSTERIOR | {"M": 30, "tau": 0.5, "alpha": 0.3}),
    "posterior, optimisation": ("posterior", POSTERIOR | {"tau": 0.0, "start": [0.0, 0.0]}),
    "landscape": ("landscape", LANDSCAPE),
    "landscape, constant tau": ("landscape", LANDSCAPE | {"anneal": False, "start": [-0.5, 0.9], "seed": 3}),
    "landscape, optimisation": ("landscape", LANDSCAPE | {"tau": 0.0, "M": 10, "lam": 0.1}),
}


def node(program: str) -> Any:
    """Run a program that imports the scripts from ``./`` and prints JSON."""
    located = re.sub(r'"\./(\w+\.mjs)"', lambda match: json.dumps((SOURCES / match[1]).as_uri()), program)
    run = subprocess.run([str(NODE), "--input-type=module"], input=located, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


RACES = """
import { draws, race } from "./race.mjs";
import { landscapeProblem } from "./landscape.mjs";
import { logisticProblem } from "./logistic.mjs";
const problems = { posterior: logisticProblem(%(rows)s), landscape: landscapeProblem() };
const races = {};
for (const [title, [name, settings]] of Object.entries(%(settings)s)) {
  const problem = problems[name];
  const drawn = draws(settings.seed, settings.steps, settings.M, problem.numExamples);
  races[title] = { drawn, paths: race(problem, settings) };
}
console.log(JSON.stringify(races));
"""


@pytest.fixture(scope="module")
def races() -> Any:
    return node(RACES % {"rows": json.dumps(ROWS), "settings": json.dumps(SETTINGS)})


def posterior_losses(theta: Tensor, batch: list[int]) -> Tensor:
    x, y = torch.from_numpy(X[batch]), torch.from_numpy(Y[batch])
    return torch.nn.functional.binary_cross_entropy_with_logits(x @ theta, y, reduction="none")


def landscape_losses(theta: Tensor, batch: list[int]) -> Tensor:
    x, y = theta
    a = x * torch.sin(20 * y) + y * torch.sin(20 * x)
    b = x * torch.cos(10 * y) - y * torch.sin(10 * x)
    angle = 2 * torch.pi * torch.tensor(batch, dtype=torch.float64) / 20
    return -torch.exp(-(a**2) - b**2) + 0.5 * (torch.cos(angle) * x + torch.sin(angle) * y)


def replay(
    figure: str, method: str, settings: dict[str, Any], drawn: list[dict[str, Any]], path: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """Run the Python rule of a method on given noise and minibatches; return its means and precisions.

    The steep landscape amplifies rounding a millionfold in a hundred steps. There each gradient is computed at the
    sample of ``path``, which must equal the rule's own to the last digits, so that errors cannot grow.
    """
    rule, corrected = METHODS[method]
    on_landscape = figure == "landscape"
    losses, lam = landscape_losses if on_landscape else posterior_losses, settings["lam"]
    values = {
        "num_data": 20 if on_landscape else 60,
        "data_weight": 1 / 20 if on_landscape else 1.0,
        "temperature": 1.0,
        "prior": 0.0,
        "prior_precision": 0.0 if on_landscape and method == "adam" else lam,
        "init_precision": lam + 1,
        "lr": settings["alpha"] * (10 if on_landscape and method == "vogn" else 1),
        "betas": (0.9, 0.9 if on_landscape else 0.998),
        "beta": 0.9 if on_landscape else 0.998,
        "tau": settings["tau"],
        "batch_size": settings["M"] if corrected else None,
        "eps": 1e-8,
        "start_in_step": False,
        "momentum": 0.0,
        "damping": 0.0,
    }
    arguments = rule.rule_args(values)
    state = call(rule.init, arguments, double(settings["start"]))
    means, precisions = [], []
    for t in range(len(drawn) + 1):
        share = t / settings["steps"]
        arguments["alpha"] = values["lr"] * (1 - 0.95 * share)
        arguments["tau"] = values["tau"] * (max(0.0, 1 - 2 * share) if settings["anneal"] else 1.0)
        mean, precision = state.mu, call(rule.precision, arguments, state) if method != "adam" else None
        means.append(mean)
        precisions += [] if precision is None else [precision]
        if t < len(drawn):
            if on_landscape:
                mean, precision = double(path["mean"][t]), None if precision is None else double(path["precision"][t])
            theta = mean if precision is None else mean + precision.rsqrt() * double(drawn[t]["noise"])
            each = torch.autograd.functional.jacobian(partial(losses, batch=drawn[t]["batch"]), theta)
            g = each.mean(0)
            h = each.square().mean(0) if rule is rules.vogn else g * g
            state = call(rule.update, arguments, state, g, h)
    return torch.stack(means), torch.stack(precisions) if precisions else torch.zeros(0)


def double(numbers: list[Any]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def call(function: Any, arguments: dict[str, Any], *positional: Any) -> Any:
    accepted = inspect.signature(function).parameters
    return function(*positional, **{name: value for name, value in arguments.items() if name in accepted})


def assert_same_path(path: dict[str, Any], means: Tensor, precisions: Tensor) -> None:
    steps = slice(len(means))
    torch.testing.assert_close(double(path["mean"][steps]), means, rtol=0, atol=1e-12)
    if len(precisions):
        torch.testing.assert_close(double(path["precision"][steps]), precisions, rtol=1e-12, atol=0)


@needs_node
@pytest.mark.parametrize("title", SETTINGS)
@pytest.mark.parametrize("method", METHODS)
def test_every_step_is_that_of_the_python_rule(races: Any, title: str, method: str) -> None:
    figure, settings = SETTINGS[title]
    path = races[title]["paths"][method]
    assert_same_path(path, *replay(figure, method, settings, races[title]["drawn"], path))


@needs_node
def test_the_noise_is_numpys() -> None:
    drawn = node("""
        import { RandomState } from "./random.mjs";
        const numbers = (seed, draw) => { const random = new RandomState(seed); return Array.from({ length: 1500 }, () => draw(random)); };
        const seeds = [0, 1, 42, 4294967295];
        console.log(JSON.stringify(seeds.map((s) => [s, numbers(s, (r) => r.uniform()), numbers(s, (r) => r.normal())])));
    """)
    for seed, uniform, normal in drawn:
        np.testing.assert_array_equal(uniform, np.random.RandomState(seed).random_sample(1500))
        np.testing.assert_allclose(normal, np.random.RandomState(seed).randn(1500), rtol=1e-14)


@needs_node
def test_minibatches_have_no_repetition_and_are_uniform(races: Any) -> None:
    batches = np.array([step["batch"] for step in races["posterior"]["drawn"]])
    assert all(len(set(batch)) == 10 for batch in batches.tolist())
    drawn = node("""
        import { RandomState } from "./random.mjs";
        const random = new RandomState(5);
        console.log(JSON.stringify(Array.from({ length: 20000 }, () => random.subset(2, 5))));
    """)
    pairs = np.zeros((5, 5))
    np.add.at(pairs, tuple(np.array(drawn).T), 1)
    # Each ordered pair has probability 1/20: 1000 of 20000 draws with a standard deviation of 31. Five of them.
    assert not pairs.diagonal().any()
    assert np.abs(pairs[~np.eye(5, dtype=bool)] - 1000).max() < 155


@needs_node
def test_the_exact_posterior_is_that_of_the_library() -> None:
    lams = [0.03, 0.1, 0.7, 3.0]
    found = node(f"""
        import {{ Logistic, massLevels, symmetricKl }} from "./logistic.mjs";
        const model = new Logistic({json.dumps(ROWS)});
        const fits = {lams}.map((lam) => model.meanField(lam));
        const side = Array.from({{ length: 60 }}, (_, i) => (10 * i) / 59);
        const values = side.flatMap((x) => side.map((y) => model.logLikelihood([x, y]) - 0.05 * (x * x + y * y)));
        const top = Math.max(...values);
        const levels = massLevels(values, [0.9, 0.5, 0.1]).map((level) => Math.exp(level - top));
        console.log(JSON.stringify({{ fits, kl: symmetricKl(fits[0], fits[2]), levels }}));
    """)
    exact = [logistic.mean_field(X, Y, lam) for lam in lams]
    for fit, best in zip(found["fits"], exact, strict=True):
        np.testing.assert_allclose(fit["mean"], best.mean, atol=1e-8)
        np.testing.assert_allclose(fit["precision"], best.precision, rtol=1e-8)
    low, high = exact[0].posterior(), exact[2].posterior()
    assert isinstance(low, vadam.MeanFieldGaussian)
    assert isinstance(high, vadam.MeanFieldGaussian)
    assert found["kl"] == pytest.approx(float(low.symmetric_kl(high)), rel=1e-7)

    def log_joint(w: Tensor) -> Tensor:
        signed = torch.from_numpy(X * np.where(Y > 0, 1.0, -1.0)[:, None])
        return torch.nn.functional.logsigmoid(w @ signed.T).sum(1) - 0.05 * w.square().sum(1)

    grid = grid_posterior(log_joint, (0.0, 10.0), (0.0, 10.0), points=60)
    np.testing.assert_allclose(found["levels"], np.array(grid.levels()) / float(grid.density.max()), rtol=1e-9)


@needs_node
def test_the_numbers_beside_the_landscape() -> None:
    points = [[0.0, 0.0], [0.93, 0.77], [-0.4, 0.31]]
    found = node(f"""
        import {{ height, sharpness }} from "./landscape.mjs";
        console.log(JSON.stringify({points}.map((point) => [height(point), sharpness(point)])));
    """)
    for point, (height, sharpness) in zip(points, found, strict=True):
        theta = torch.tensor(point, dtype=torch.float64)
        mean = lambda w: landscape_losses(w, list(range(20))).mean()  # noqa: E731
        assert height == pytest.approx(float(mean(theta)), abs=1e-14)
        hessian = torch.autograd.functional.hessian(mean, theta)
        assert sharpness == pytest.approx(float(hessian.trace()), rel=1e-6)


@needs_node
def test_every_end_of_every_slider_gives_finite_paths() -> None:
    found = node(f"""
        import {{ landscapeFigure, posteriorFigure }} from "./problems.mjs";
        import {{ race }} from "./race.mjs";
        const broken = [];
        for (const {{ problem, defaults, sliders, range }} of [posteriorFigure({json.dumps(ROWS)}), landscapeFigure()])
          for (const alpha of sliders.alpha) for (const lam of sliders.lam) for (const M of sliders.M) for (const tau of [0, 1])
            for (const end of [0, 1]) {{
              const settings = {{ ...defaults, alpha, lam, M, tau, start: [range.x[end], range.y[end]], steps: 200 }};
              for (const [name, path] of Object.entries(race(problem, settings))) {{
                const numbers = [...path.mean.flat(), ...path.precision.flat().filter((value) => value !== null)];
                if (!numbers.every(Number.isFinite)) broken.push([name, settings]);
              }}
            }}
        console.log(JSON.stringify(broken));
    """)
    assert found == []


def test_the_page_stands_alone(tmp_path: Path) -> None:
    text = live.write(tmp_path).read_text()
    assert "{{" not in text
    assert not re.search(r'(?:src|href)="(?!data:|#)', text)
    assert not re.search(r"^(import|export) ", text, re.MULTILINE)
    assert {f"{name}.mjs" for name in live.MODULES} == {path.name for path in SOURCES.glob("*.mjs")}


def test_the_fragment_can_stand_in_a_block_of_the_documentation() -> None:
    assert "```" not in live.fragment()


def test_the_demo_writes_it_and_links_it(tmp_path: Path) -> None:
    index = page.write(Results(Size()), tmp_path)
    assert 'href="live.html"' in index.read_text()
    assert (tmp_path / "live.html").exists()


PROBE = (Path(__file__).parent / "live_probe.html").read_text()

PHONE = """<!doctype html><title>phone</title><script>
addEventListener("message", ({ data }) => document.body.append(Object.assign(document.createElement("pre"), { textContent: data })));
</script><body><iframe src="live.html" style="border: 0; width: 400px; height: 800px"></iframe></body>"""


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_the_page_in_a_browser_400_pixels_wide(tmp_path: Path) -> None:
    path = live.write(tmp_path)
    path.write_text(path.read_text().replace("</body>", f"{PROBE}</body>"))
    (tmp_path / "phone.html").write_text(PHONE)
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    flags += ["--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path / 'profile'}"]
    flags += ["--window-size=600,900", "--virtual-time-budget=20000", "--enable-logging=stderr", "--dump-dom"]
    command = [str(CHROMIUM), *flags, (tmp_path / "phone.html").as_uri()]
    run = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    assert "CONSOLE" not in run.stderr
    found = re.search(r"<pre>(.*?)</pre>", run.stdout, re.DOTALL)
    assert found, run.stdout[-2000:]
    answers = json.loads(found[1])
    assert answers["failures"] == []
    assert answers["width"] == 400
    assert answers["overflow"] <= 0
    assert answers["wideTables"] == []
    for figure in ("posterior", "landscape"):
        seen = answers[figure]
        acts = {"alpha", "lam", "tau", "M", "seed", "anneal", "drag", "arrow key", "hide", "scrub"}
        assert seen["changed"] == dict.fromkeys(acts, True)
        assert seen["moved"] == pytest.approx([-30, 50], abs=1)
        assert (seen["stepped"], seen["paused"], seen["reset"]) == (501, "Play", 0)
        assert seen["played"] > 501
        assert seen["restored"]
        assert seen["unnamed"] == []
        noise = np.random.RandomState(seen["settings"]["seed"]).randn(120, 2)
        order = drawn_batches(seen["settings"], 20 if figure == "landscape" else 60)
        drawn = [{"noise": pair.tolist(), "batch": batch} for pair, batch in zip(noise, order, strict=True)]
        for method in METHODS:
            path = seen["paths"][method]
            assert_same_path(path, *replay(figure, method, seen["settings"], drawn, path))
    readings = {name: cells[0] for name, cells in answers["posterior"]["readings"].items()}
    assert readings.pop("adam") == "a point"
    assert float(readings["vogn"]) < float(readings["corrected"]) < float(readings["vadam"])


def drawn_batches(settings: dict[str, Any], num_examples: int) -> list[list[int]]:
    """Return the minibatches of 120 steps: the starts of Fisher-Yates shuffles from numpy's uniform numbers."""
    random = np.random.RandomState(settings["seed"] + 1000)
    batches = []
    for _ in range(120):
        order = list(range(num_examples))
        for i in range(settings["M"]):
            j = i + int(random.random_sample() * (num_examples - i))
            order[i], order[j] = order[j], order[i]
        batches.append(order[: settings["M"]])
    return batches
