"""One artefact on the page: the paper's claim, our figure, the numbers side by side, the deviations."""

from pathlib import Path

from vadam import atomic
from vadam.plot import theme
from vadam.report import html
from vadam_paper.experiments.contract import Experiment
from vadam_paper.experiments.progress import progress
from vadam_paper.experiments.results import Recorded, Results, readable
from vadam_paper.report import markdown


def section(experiment: Experiment, results: Results, figures: Path) -> str:
    head = (
        f'<section id="{html.text(experiment.name)}" class="artefact"><header><p class="label">'
        f"{html.text(experiment.artefact)}</p><h2>{html.text(experiment.title)}</h2></header>"
    )
    if not results:
        return f"{head}{_not_run(experiment)}</section>"
    readme = markdown.sections(experiment.readme)
    with readable(experiment):
        measured = [
            _figures(experiment, results, figures),
            _animation(experiment, results),
            *map(html.table, experiment.tables(results)),
            "".join(f"<p>{html.text(note)}</p>" for note in experiment.notes(results)),
        ]
    parts = [
        head,
        f'<div class="paper">{readme.get("The paper", "")}</div>',
        *measured,
        _details("Protocol", readme.get("Protocol", "")),
        _details("Deviations", readme.get("Deviations", "")),
        _runs(experiment, results),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _not_run(experiment: Experiment) -> str:
    if experiment.runnable:
        return f'<p class="empty">Not run yet: <code>vadam reproduce {html.text(experiment.name)}</code>.</p>'
    return '<p class="empty">Its claims are declared in the ledger; it cannot be run in this version.</p>'


def _figures(experiment: Experiment, results: Results, folder: Path) -> str:
    plot = experiment.part("plot")
    return "".join(
        _figure(f"{experiment.name}-{name}", figure, plot.CAPTIONS[name], folder)
        for name, figure in plot.figures(results).items()
    )


def _figure(name: str, figure: object, caption: str, folder: Path) -> str:
    drawing = theme.svg(figure, name)  # type: ignore[arg-type]
    atomic.write_text(folder / f"{name}.svg", drawing.replace("currentColor", theme.INK))
    atomic.write_bytes(folder / f"{name}.png", theme.png(figure))  # type: ignore[arg-type]
    labelled = drawing.replace("<svg ", f'<svg role="img" aria-label="{html.text(caption)}" ', 1)
    files = f'<a href="figures/{name}.png">PNG</a> <a href="figures/{name}.svg">SVG</a>'
    return (
        f'<figure>{labelled}<figcaption>{html.text(caption)} <span class="files">{files}</span></figcaption></figure>'
    )


def _animation(experiment: Experiment, results: Results) -> str:
    plot = experiment.part("plot")
    if not hasattr(plot, "animation"):
        return ""
    frames = plot.animation(results)
    frames["landscape"] = html.data_uri(frames["landscape"], "image/png")
    return f"""<figure class="player"><canvas role="img" aria-label="{html.text(frames["caption"])}"></canvas>
<div class="controls"><button type="button" class="play">Play</button>
<input type="range" min="0" max="{len(frames["variational"]) - 1}" value="0" aria-label="Step"><output></output></div>
<figcaption>{html.text(frames["caption"])}</figcaption><script type="application/json">{html.json_script(frames)}</script></figure>"""


def _details(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>{body}</details>" if body else ""


def _runs(experiment: Experiment, results: Results) -> str:
    """Return what the figures and tables were made from, and how far the runs are: these and others."""
    shown = [f"{_progress(experiment, run)}; config {run.manifest['config_hash']}" for run in results.values()]
    others = [_progress(experiment, run) for run in results.others]
    more = f" Also recorded: {'. '.join(others)}." if others else ""
    return f'<p class="runs">{html.text(". ".join(shown))}.{html.text(more)}</p>'


def _progress(experiment: Experiment, run: Recorded) -> str:
    found = str(progress(experiment, run))
    return found[0].upper() + found[1:]
