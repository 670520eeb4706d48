"""Write the page: one static file made from the results."""

import json
import platform
import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import torch

import vadam
from vadam import atomic
from vadam.demo import figures, live, text
from vadam.demo.trainings import EXACT, Results
from vadam.plot import theme
from vadam.report import html
from vadam.report.html import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check() -> None:
    """Raise ImportError before the training if figures cannot be drawn."""
    with theme.style():
        pass


def write(results: Results, out: Path) -> Path:
    """Write the page, its figures and the live page; return the path of the page."""
    sections = {
        "diff": ("Five lines", f"{text.DIFF_BEFORE}{_code(text.DIFF)}{text.DIFF_AFTER}"),
        "digits": ("What you get", _digits(results, out)),
        "gap": ("Uncertain where there are no data", _gap(results, out)),
        "posterior": ("The posterior beside the true one", _posterior(results, out)),
        **{name: (title, _tabular(results, name, out)) for name, title in text.TABULAR.items()},
        "settings": ("Settings", f"{text.SETTINGS}{html.table(text.settings(results.size))}"),
    }
    present = {key: (title, body) for key, (title, body) in sections.items() if body}
    index = out / "index.html"
    page = html.fill(
        (files(__package__) / "page.html").read_text(encoding="utf-8"),
        style=html.asset("page.css"),
        stopped="" if results.complete else f'<p class="stopped">{text.STOPPED}</p>',
        navigation="".join(f'<a href="#{key}">{title}</a>' for key, (title, _) in present.items()),
        sections="\n".join(
            f'<section id="{key}"><header><h2>{title}</h2></header>{body}</section>'
            for key, (title, body) in present.items()
        ),
        provenance=html.text(
            f"{results.seconds:.0f} seconds of training; vadam {vadam.__version__}, torch {torch.__version__}, "
            f"Python {platform.python_version()}. The figures stand beside this page in figures/, the numbers in demo.json."
        ),
    )
    atomic.write_text(index, page)
    live.write(out)
    atomic.write_text(out / "demo.json", json.dumps(results.as_json(), indent=2, ensure_ascii=False) + "\n")
    return index


def _code(text: str) -> str:
    kinds = {"-": "out", "+": "in"}
    lines = "".join(
        f'<span class="{kinds.get(line[:1], "same")}">{html.text(line)}</span>' for line in text.splitlines()
    )
    return f'<pre class="diff"><code>{lines}</code></pre>'


def _digits(results: Results, out: Path) -> str:
    if not results.digits:
        return ""
    panels = figures.digit_panels(results)
    drawn = "".join(_panel(f"digits-{name}", *panel, out) for name, panel in panels.items())
    described = "".join(f"<li>{html.text(description)}</li>" for _, description in panels.values())
    return (
        f'{text.DIGITS}<div class="panels">{drawn}</div><ul>{described}</ul>{html.table(text.digits_table(results))}'
        f"{text.digits_verdict(results)}"
    )


def _gap(results: Results, out: Path) -> str:
    if not results.bands:
        return ""
    panels = figures.wave_panels(results)
    drawn = "".join(_panel(f"gap-{_slug(method)}", *panel, out) for method, panel in panels.items())
    numbers = [
        (method, f"{band.among_data:.2f}", f"{band.in_gap:.2f}", f"{band.beyond:.2f}", text.widening(band))
        for method, band in results.bands.items()
    ]
    caption = "Standard deviation of the function over the posterior, noise apart, in units of y."
    columns = ("method", "among the data", "in the gap", "far outside", "does it widen?")
    return (
        f'{text.GAP}<div class="panels">{drawn}</div>{text.GAP_KEY}{html.table(Table(caption, columns, numbers))}'
        f"{_scores(results, 'wave', text.GAP_SCORES)}"
    )


def _posterior(results: Results, out: Path) -> str:
    if not results.ellipses:
        return ""
    panel = _panel("posterior", *figures.ellipse_panel(results), out)
    rows = [
        (name, *(f"{m:.2f} ± {s:.2f}" for m, s in zip(q.mean, q.stddev, strict=True)), f"{q.divergence:.2f}")
        for name, q in results.ellipses.items()
    ]
    caption = f"Mean and standard deviation of the two weights, and the symmetric KL divergence from {EXACT} in nats."
    table = html.table(Table(caption, ("method", "θ₁", "θ₂", "symmetric KL"), rows))
    return f'{text.POSTERIOR}<div class="panels wide">{panel}</div>{table}'


def _tabular(results: Results, name: str, out: Path) -> str:
    if not results.intervals.get(name):
        return ""
    shown = "Vadam" if "Vadam" in results.intervals[name] else next(iter(results.intervals[name]))
    panels = _panel(f"{name}-intervals", *figures.prediction_panel(results, name, shown), out)
    panels += _panel(f"{name}-coverage", *figures.coverage_panel(results, name), out)
    intro, caption = text.tabular_text(name, results)
    return f'{intro}<div class="panels two">{panels}</div>{_scores(results, name, caption)}'


def _scores(results: Results, problem: str, caption: str) -> str:
    columns = ("method", "RMSE", "log-likelihood", "90 % coverage", "RMSE, more certain half · other half", "seconds")
    rows = [
        (
            method,
            f"{score.rmse:.2f}",
            f"{score.log_likelihood:.2f}".replace("-", "−"),
            f"{score.coverage:.0%}",
            "\u00a0·\u00a0".join(f"{half:.2f}" for half in score.rmse_halves) if score.rmse_halves else "–",
            f"{score.seconds:.1f}",
        )
        for method, score in results.scores.get(problem, {}).items()
    ]
    return html.table(Table(caption, columns, rows))


def _panel(name: str, figure: "Figure", description: str, out: Path) -> str:
    atomic.write_bytes(out / "figures" / f"demo-{name}.png", theme.png(figure))
    drawing = theme.svg(figure, name)
    labelled = drawing.replace("<svg ", f'<svg role="img" aria-label="{html.text(description)}" ', 1)
    return f"<figure>{labelled}</figure>"


def _slug(method: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", method.lower()).strip("-")
