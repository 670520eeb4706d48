"""Build a small page about a fitted model: its accuracy on held-out rows and the calibration of its uncertainty."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from vadam import atomic
from vadam.plot import theme
from vadam.report import html
from vadam.report.html import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVEL = 0.9


class Evaluation(Protocol):
    """The result of a fitted model on held-out rows."""

    @property
    def target(self) -> str: ...

    @property
    def actual(self) -> np.ndarray: ...

    def summary(self) -> dict[str, Any]: ...

    def lead(self, baselines: dict[str, float]) -> str: ...

    def figures(self) -> "list[tuple[Figure, str]]": ...


@dataclass(frozen=True)
class ModelFacts:
    """Facts about a model besides its evaluation, for its page."""

    notes: list[str]
    columns: dict[str, str]
    """The columns that the model uses, each with its kind."""
    left_out: dict[str, str]
    """The columns that the model does not use, each with the reason."""
    baselines: dict[str, float]
    settings: dict[str, str]
    tuned: bool
    """True if the settings were chosen by cross-validation."""
    importance: dict[str, float]
    """The fall of the log-likelihood when a column is shuffled."""
    uncertain: list[dict[str, Any]]
    """The held-out rows with the most uncertain predictions."""
    seconds: float


@dataclass(frozen=True)
class RegressionEvaluation:
    """Predictions on held-out rows; ``quantiles`` [n, K] are predicted at the ``levels`` [K]."""

    target: str
    rows: int
    actual: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    levels: np.ndarray
    quantiles: np.ndarray
    log_likelihood: float

    @property
    def coverage(self) -> float:
        low, high = self.quantiles[:, 0], self.quantiles[:, -1]
        return float(np.mean((low <= self.actual) & (self.actual <= high)))

    def summary(self) -> dict[str, Any]:
        residual, variance = self.actual - self.mean, np.var(self.actual)
        return {
            "task": "regression",
            "target": self.target,
            "rows": self.rows,
            "held_out_rows": len(self.actual),
            "rmse": float(np.sqrt(np.mean(residual**2))),
            "r2": float(1 - np.mean(residual**2) / variance) if variance > 0 else float("nan"),
            "log_likelihood": self.log_likelihood,
            "coverage_of_90_percent_intervals": self.coverage,
        }

    def lead(self, baselines: dict[str, float]) -> str:
        """Return the result in words."""
        shown = html.four_digits
        error = shown(self.summary()["rmse"])
        against = _comparison({name.removeprefix("rmse_of_"): shown(value) for name, value in baselines.items()})
        return (
            f"On {len(self.actual)} rows that the model had not seen, the usual error (RMSE) is {error}{against}. "
            f"Of the 90 % intervals, {100 * self.coverage:.0f} % hold the true value."
        )

    def figures(self) -> "list[tuple[Figure, str]]":
        blue, ink = theme.COLOURS["VOGN"], theme.INK
        with theme.style():
            truth, (left,) = theme.panels(1, width=4.4, height=3.6)
            low, high = self.quantiles[:, 0], self.quantiles[:, -1]
            bars = np.abs(np.stack([self.mean - low, high - self.mean]))
            left.errorbar(self.actual, self.mean, yerr=bars, fmt=".", color=blue, ecolor=f"{blue}50", linewidth=1)
            ends = [float(self.actual.min()), float(self.actual.max())]
            left.plot(ends, ends, color=ink, linewidth=0.8)
            left.locator_params(nbins=5)
            left.set_xlabel(f"{self.target}, actual", parse_math=False)
            left.set(ylabel="predicted, with 90 % interval", title="Held-out rows")
            calibration, (right,) = theme.panels(1, width=4.4, height=3.6)
            observed = (self.actual[:, None] <= self.quantiles).mean(0)
            right.plot([0, 1], [0, 1], color=ink, linewidth=0.8)
            right.plot(self.levels, observed, "o-", color=theme.COLOURS["Vadam"], markersize=4)
            right.set(xlabel="predicted probability of a lower value", ylabel="observed share", title="Calibration")
            right.grid()
        return [
            (truth, "Predictions against truth: the line is a perfect prediction."),
            (calibration, "A calibrated model lies on the diagonal."),
        ]


@dataclass(frozen=True)
class ClassificationEvaluation:
    """Predicted ``probabilities`` [n, K] of the ``classes``; ``numbers`` [n] are the true classes."""

    target: str
    rows: int
    actual: np.ndarray
    probabilities: np.ndarray
    classes: list[str]
    numbers: np.ndarray

    def summary(self) -> dict[str, Any]:
        chosen = self.probabilities[np.arange(len(self.numbers)), self.numbers]
        return {
            "task": "classification",
            "target": self.target,
            "rows": self.rows,
            "held_out_rows": len(self.numbers),
            "accuracy": float(np.mean(self.probabilities.argmax(1) == self.numbers)),
            "log_likelihood": float(np.mean(np.log(chosen))),
        }

    def lead(self, baselines: dict[str, float]) -> str:
        """Return the result in words."""
        shares = {name.removeprefix("accuracy_of_"): f"{100 * value:.0f} %" for name, value in baselines.items()}
        accuracy = 100 * self.summary()["accuracy"]
        return (
            f"Of {len(self.numbers)} rows that the model had not seen, {accuracy:.0f} % are predicted right"
            f"{_comparison(shares)}."
        )

    def figures(self) -> "list[tuple[Figure, str]]":
        right_class = self.probabilities.argmax(1) == self.numbers
        confidence = self.probabilities.max(1)
        edges = np.quantile(confidence, np.linspace(0, 1, 9))
        bins = np.clip(np.searchsorted(edges, confidence, side="right") - 1, 0, 7)
        filled = [b for b in range(8) if np.any(bins == b)]
        with theme.style():
            histogram, (left,) = theme.panels(1, width=4.4, height=3.6)
            left.hist(
                [confidence[right_class], confidence[~right_class]],
                bins=20,
                stacked=True,
                color=[theme.COLOURS["MF-Exact"], theme.COLOURS["Vadam"]],
                label=["right", "wrong"],
            )
            left.set(xlabel="probability of the chosen class", ylabel="held-out rows", title="Held-out rows")
            left.legend(fontsize=8)
            calibration, (right,) = theme.panels(1, width=4.4, height=3.6)
            right.plot([0, 1], [0, 1], color=theme.INK, linewidth=0.8)
            right.plot(
                [confidence[bins == b].mean() for b in filled],
                [right_class[bins == b].mean() for b in filled],
                "o-",
                color=theme.COLOURS["Vadam"],
                markersize=4,
            )
            right.set(xlabel="predicted probability", ylabel="share that is right", title="Calibration")
            right.grid()
        return [
            (histogram, "The confidence of the model on right and wrong rows."),
            (calibration, "A calibrated model lies on the diagonal."),
        ]


def _comparison(baselines: dict[str, str]) -> str:
    """Return the results of simpler answers, as the end of a sentence about the model's."""
    others = [f"{value} by {name.replace('_', ' ')}" for name, value in baselines.items()]
    return f", against {html.listed(others)}" if others else ""


def build(evaluation: Evaluation, path: Path, facts: ModelFacts | None = None, command: str = "") -> Path:
    """Write the page, a single HTML file, and return its path."""
    figures = "".join(_figure(figure, k, caption) for k, (figure, caption) in enumerate(evaluation.figures()))
    rows = [
        (name.replace("_", " "), _shown(value))
        for name, value in {**evaluation.summary(), **(facts.baselines if facts else {})}.items()
    ]
    page = html.fill(
        html.asset("model.html"),
        style=html.asset("page.css"),
        title=html.text(evaluation.target),
        lead=html.text(evaluation.lead(facts.baselines if facts else {})),
        figures=figures,
        table=html.table(
            Table("Evaluated on held-out rows. The saved model was then fitted to all rows.", ("", ""), rows)
        ),
        facts="".join(_sections(facts, command)) if facts else "",
    )
    atomic.write_text(path, page)
    return path


def _figure(figure: "Figure", number: int, caption: str) -> str:
    drawing = theme.svg(figure, f"model{number}").replace(
        "<svg ", f'<svg role="img" aria-label="{html.text(caption)}" ', 1
    )
    return f"<figure>{drawing}<figcaption>{html.text(caption)}</figcaption></figure>"


def _sections(facts: ModelFacts, command: str) -> Iterator[str]:
    """Yield the parts of the page below the figure."""
    if facts.notes:
        items = "".join(f"<li>{html.text(note)}</li>" for note in facts.notes)
        yield f"<section><h2>Notes</h2><ul>{items}</ul></section>"
    if facts.importance:
        rows = [(name, f"{value:.3g}") for name, value in facts.importance.items()]
        caption = (
            "Which columns matter: the fall of the log-likelihood of a held-out row when the column is shuffled. "
            "Near 0 or below, the column helps little."
        )
        yield f"<section>{html.table(Table(caption, ('column', 'nats'), rows))}</section>"
    if facts.uncertain:
        names = tuple(facts.uncertain[0])
        cells = [tuple(_shown(row[name]) for name in names) for row in facts.uncertain]
        caption = "The held-out rows that the model is least sure of; row is the line of the file."
        yield f"<section>{html.table(Table(caption, names, cells))}</section>"
    yield f"<section>{html.table(Table('Columns used.', ('column', 'as'), list(facts.columns.items())))}"
    yield f"{html.table(Table('Columns left out.', ('column', 'because'), list(facts.left_out.items())))}</section>"
    rows = [*facts.settings.items(), ("seconds", f"{facts.seconds:.1f}")]
    caption = (
        "Chosen by cross-validation inside the training rows." if facts.tuned else "Settings, used without tuning."
    )
    yield f"<section>{html.table(Table(caption, ('', ''), rows))}</section>"
    if command:
        advice = "Or name another table with these columns; it needs no target."
        yield f"<section><h2>Predict</h2><p><code>{html.text(command)}</code></p><p>{advice}</p></section>"


def _shown(value: Any) -> str:
    return html.four_digits(value) if isinstance(value, float) else str(value)
