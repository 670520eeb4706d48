"""The ``vadam fit`` and ``vadam predict`` commands."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from vadam.cli.errors import exit_on_error
from vadam.cli.json_output import Json, print_json
from vadam.cli.progress import bar, waiting
from vadam.report.html import four_digits

OPTIMIZERS = ("vadam", "vprop", "vogn", "bbvi", "ivon", "vadagrad", "map", "mc-dropout", "vadam_ggn")
"""The estimators' optimizers; listed here because a help text must not import torch."""
NOTHING_WRITTEN = "Nothing was written."
Decimal = Annotated[
    str | None, typer.Option(help="The decimal sign of the numbers: . or , (default: as the table shows it).")
]


def fit(
    table: Annotated[
        Path,
        typer.Argument(
            help="A .csv, .tsv, .xlsx or .parquet file with one example per row and names of columns on top."
        ),
    ],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    out: Annotated[Path, typer.Option(help="File to write the model to.")] = Path("model.safetensors"),
    report: Annotated[
        Path | None, typer.Option(help="File to write the HTML report to. Default: beside the model.")
    ] = None,
    task: Annotated[str, typer.Option(help="regression, classification, or auto (decided by the target).")] = "auto",
    decimal: Decimal = None,
    ignore: Annotated[list[str] | None, typer.Option(help="A column to leave out. Can be repeated.")] = None,
    optimizer: Annotated[str, typer.Option(help=f"One of {', '.join(OPTIMIZERS)}.")] = "vadam",
    budget: Annotated[
        int, typer.Option(min=0, help="Number of prior and noise settings to try; 0 to skip tuning.")
    ] = 16,
    members: Annotated[int, typer.Option(min=1, help="Number of posteriors in the mixture.")] = 5,
    holdout: Annotated[float, typer.Option(help="Fraction of the rows held out to evaluate the model.")] = 0.2,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the split and the training.")] = 0,
    as_json: Json = False,
) -> None:
    """Fit a Bayesian network to a table, tune prior and noise, and evaluate it on held-out rows.

    Missing numbers are filled in, dates and categories become numbers, ids and free text are left out: see the report.

    For example: vadam fit houses.csv --target price

    Then run: vadam predict model.safetensors new.csv
    """
    with exit_on_error(as_json, kept=NOTHING_WRITTEN):
        from vadam.cli import fitting, output_paths

        output_paths.check_file(out)
        where = report or out.with_suffix(".html")
        output_paths.check_file(where)
        output_paths.check_distinct(out, where)
        output_paths.check_keeps(out, table)
        output_paths.check_keeps(where, table)
        options = {"optimizer": optimizer, "budget": budget, "members": members, "random_state": seed}
        with bar(f"fitting {table.name}") as move:
            fitted = fitting.fit(
                table, target, task, tuple(ignore or ()), holdout, options, _forward_only(move), decimal
            )
        fitted.model.save(out)
    with exit_on_error(as_json, kept=f"The model is in {out}, the report was not written."):
        from vadam.report import model as page

        command = f"vadam predict {shlex.quote(str(out))} {shlex.quote(table.name)}"
        page.build(fitted.evaluation, where, fitted.facts, command)
    facts = fitted.facts
    answer = {
        "model": str(out),
        "report": str(where),
        **fitted.evaluation.summary(),
        **facts.baselines,
        "seconds": round(facts.seconds, 1),
        "columns": list(facts.columns),
        "left_out": facts.left_out,
        "notes": facts.notes,
        "predict": command,
    }
    print_json(answer) if as_json else _show(answer)


def predict(
    model: Annotated[Path, typer.Argument(help="A model written by vadam fit.")],
    table: Annotated[
        Path,
        typer.Argument(help="A .csv, .tsv, .xlsx or .parquet file with the columns that the model was fitted with."),
    ],
    out: Annotated[
        Path, typer.Option(help="File to write to: .csv (commas, decimal points), .tsv or .parquet.")
    ] = Path("predictions.csv"),
    level: Annotated[float, typer.Option(help="Coverage probability of the intervals.")] = 0.9,
    decimal: Decimal = None,
    as_json: Json = False,
) -> None:
    """Predict the rows of a table: mean, standard deviation and interval, or class probabilities.

    Columns that the model does not use, such as ids, are kept beside the predictions.
    """
    with exit_on_error(as_json, kept=NOTHING_WRITTEN), waiting(f"predicting {table.name}"):
        from vadam.cli import dataframe, output_paths, predicting

        output_paths.check_file(out)
        output_paths.check_keeps(out, model, table)
        write = dataframe.writer(out)
        found = predicting.predict(model, table, level, decimal)
        write(found.table)
    answer = {
        "predictions": str(out),
        "rows": len(found.table),
        "columns": list(found.table.columns),
        "notes": found.notes,
    }
    print_json(answer) if as_json else _show(answer)


def _forward_only(move: Any) -> Any:
    """Return a progress function that never moves back when the second training, on all rows, starts from zero."""
    furthest = 0.0

    def moved(share: float, label: str) -> None:
        nonlocal furthest
        furthest = max(furthest, share)
        move(furthest, label)

    return moved


def _show(answer: dict[str, Any]) -> None:
    for name, value in answer.items():
        label = name.replace("_", " ")
        if isinstance(value, dict):
            for key, reason in value.items():
                typer.echo(f"{label}: {key}, because {reason}")
        elif name == "notes":
            for note in value:
                typer.echo(f"note: {note}")
        elif isinstance(value, list):
            typer.echo(f"{label}: {', '.join(map(str, value))}")
        else:
            typer.echo(f"{label}: {four_digits(value) if isinstance(value, float) else value}")
