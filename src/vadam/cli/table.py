"""The ``vadam fit`` and ``vadam predict`` commands."""

from pathlib import Path
from typing import Annotated, Any

import typer

from vadam.cli.errors import exit_on_error
from vadam.cli.json_output import Json, print_json
from vadam.cli.progress import waiting


def fit(
    table: Annotated[Path, typer.Argument(help="A .csv or .parquet file with one example per row.")],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    out: Annotated[Path, typer.Option(help="File to write the model to.")] = Path("model.safetensors"),
    report: Annotated[
        Path | None, typer.Option(help="File to write the HTML report to. Default: beside the model.")
    ] = None,
    task: Annotated[str, typer.Option(help="regression, classification, or auto (decided by the target).")] = "auto",
    ignore: Annotated[list[str] | None, typer.Option(help="A column to leave out. Can be repeated.")] = None,
    optimizer: Annotated[str, typer.Option(help="vadam, vogn, vprop, bbvi, ivon, ...")] = "vadam",
    budget: Annotated[int, typer.Option(help="Number of prior and noise settings to try; 0 to skip tuning.")] = 30,
    members: Annotated[int, typer.Option(help="Number of posteriors in the mixture.")] = 1,
    holdout: Annotated[float, typer.Option(help="Fraction of the rows held out to evaluate the model.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Seed of the split and the training.")] = 0,
    as_json: Json = False,
) -> None:
    """Fit a Bayesian network to a table, tune prior and noise, and evaluate it on held-out rows."""
    with exit_on_error(as_json), waiting(f"fitting {table.name}"):
        from vadam.cli import modelling, output_paths
        from vadam.report import model as page

        output_paths.check_file(out)
        where = report or out.with_suffix(".html")
        output_paths.check_file(where)
        output_paths.check_distinct(out, where)
        options = {"optimizer": optimizer, "budget": budget, "members": members, "random_state": seed}
        fitted = modelling.fit(table, target, task, tuple(ignore or ()), holdout, options)
        fitted.model.save(out)
        page.build(fitted.evaluation, where)
    answer = {"model": str(out), "report": str(where), **fitted.evaluation.summary()}
    print_json(answer) if as_json else _show(answer)


def predict(
    model: Annotated[Path, typer.Argument(help="A model written by vadam fit.")],
    table: Annotated[
        Path, typer.Argument(help="A .csv or .parquet file with the columns that the model was fitted with.")
    ],
    out: Annotated[Path, typer.Option(help="File to write the predictions to, .csv or .parquet.")] = Path(
        "predictions.csv"
    ),
    level: Annotated[float, typer.Option(help="Coverage probability of the intervals.")] = 0.9,
    as_json: Json = False,
) -> None:
    """Predict the rows of a table: mean, standard deviation and interval, or class probabilities."""
    with exit_on_error(as_json), waiting(f"predicting {table.name}"):
        from vadam.cli import modelling, output_paths

        output_paths.check_file(out)
        write = modelling.writer(out)
        predictions = modelling.predict(model, table, level)
        write(predictions)
    answer = {"predictions": str(out), "rows": len(predictions), "columns": list(predictions.columns)}
    print_json(answer) if as_json else _show(answer)


def _show(answer: dict[str, Any]) -> None:
    for name, value in answer.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else value
        typer.echo(
            f"{name.replace('_', ' ')}: {shown:.4g}"
            if isinstance(shown, float)
            else f"{name.replace('_', ' ')}: {shown}"
        )
