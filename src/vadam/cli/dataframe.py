"""Read and write tables in files: .csv with any separator, .tsv, .xlsx and .parquet."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from vadam import atomic
from vadam.cli.errors import CommandError
from vadam.cli.text_file import as_csv, read_text
from vadam.cli.typed_file import UNREADABLE, read_parquet, read_sheet

if TYPE_CHECKING:
    import pandas as pd

    from vadam.estimators.encoding import Column

TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
SUFFIXES = (*TEXT_SUFFIXES, ".xlsx", ".xls", ".parquet", ".pq")


def read(
    path: Path,
    used: "Mapping[str, Column] | None" = None,
    target: str | None = None,
    decimal: str | None = None,
) -> "pd.DataFrame":
    """Read a table; raise CommandError if there is none.

    ``used`` are the columns of a model. A cell of text that is one of their categories stays as it is written: "007" or "TRUE". A
    number such as "1,234" is the one of its two meanings that the model knows. The cells of all other columns stay as they are
    written, unless they are plain numbers. In the column ``target`` the word "none" is a class beside other words, and "-" beside "+".
    ``decimal`` is the decimal sign of all texts; None to find it in the table.
    """
    if decimal not in (None, ".", ","):
        raise CommandError(f"--decimal must be . or , and not {decimal}.")
    try:
        import pandas  # noqa: F401
    except ImportError as error:
        raise ImportError('Reading tables needs pandas: pip install "vadam[sklearn]".') from error
    if not path.exists():
        raise CommandError(f"There is no file {path}: check the path.")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise CommandError(
            f"{path} is not a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file: save the table as one of them."
        )
    try:
        if suffix in TEXT_SUFFIXES:
            table = read_text(path, used, target, decimal)
        elif suffix in (".xlsx", ".xls"):
            table = read_sheet(path, used, target, decimal)
        else:
            table = read_parquet(path, used, target, decimal)
    except ImportError as error:
        if suffix == ".xls":
            raise CommandError(f"{path} is in Excel's old format: save it as .xlsx, or pip install xlrd.") from error
        package = "openpyxl" if suffix == ".xlsx" else "pyarrow"
        raise ImportError(f'Reading {suffix} needs {package}: pip install "vadam[sklearn]".') from error
    except UNREADABLE as error:
        raise CommandError(f"{path} cannot be read as a table: {error or type(error).__name__}") from error
    table.columns = [str(name).strip() for name in table.columns]
    doubled = sorted({name for name in table.columns if list(table.columns).count(name) > 1})
    if doubled:
        raise CommandError(f"{path} has several columns named {', '.join(map(repr, doubled))}: rename them.")
    return table


def writer(out: Path) -> "Callable[[pd.DataFrame], None]":
    """Return a function that writes a table to the file."""
    match out.suffix.lower():
        case ".csv":
            return lambda table: atomic.write_bytes(out, as_csv(table, ",").encode())
        case ".tsv":
            return lambda table: atomic.write_bytes(out, as_csv(table, "\t").encode())
        case ".parquet" | ".pq":
            return lambda table: atomic.write_bytes(out, table.to_parquet(index=False))
        case _:
            raise CommandError(f"--out must be a .csv or .parquet file (or .tsv), not {out}.")
