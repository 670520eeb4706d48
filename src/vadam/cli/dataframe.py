"""Read tables from files and convert them to numeric features.

A column of categories becomes one column of zeros and ones for each category, named ``column=category``. From these
names alone, the same features can be computed for another table.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from vadam.cli.errors import CommandError

if TYPE_CHECKING:
    import pandas as pd

MAX_CATEGORIES = 50


def read(path: Path) -> "pd.DataFrame":
    """Read a .csv or .parquet file."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError('Tables are read with pandas: pip install "vadam[sklearn]".') from error
    if not path.exists():
        raise CommandError(f"There is no file {path}: check the path.")
    readers = {".csv": pd.read_csv, ".parquet": pd.read_parquet, ".pq": pd.read_parquet}
    if path.suffix.lower() not in readers:
        raise CommandError(f"{path} is neither .csv nor .parquet: convert it to one of them.")
    try:
        return readers[path.suffix.lower()](path)
    except (ValueError, OSError, LookupError, RuntimeError, MemoryError) as error:
        raise CommandError(f"{path} cannot be read as a table: {error}") from error


def target_of(table: "pd.DataFrame", name: str) -> "pd.Series":
    """Return the target column; raise CommandError if it is missing or has empty cells."""
    if name not in table:
        raise CommandError(f"The table has no column {name!r}. Its columns: {', '.join(map(str, table.columns))}.")
    column = table[name]
    if column.isna().any():
        raise CommandError(f"The target {name!r} is missing in {int(column.isna().sum())} rows: fill or drop them.")
    return column


def features(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return all columns of a table as numeric features."""
    import pandas as pd

    parts = []
    for name, column in table.items():
        if pd.api.types.is_numeric_dtype(column):
            _check_complete(str(name), column)
            parts.append(column.astype(float).rename(str(name)))
        else:
            categories = sorted(column.dropna().astype(str).unique())
            if len(categories) > MAX_CATEGORIES:
                raise CommandError(
                    f"The column {name!r} has {len(categories)} different categories, more than {MAX_CATEGORIES}: leave it out "
                    f"with --ignore {name}, or convert it to numbers."
                )
            parts.extend(_indicator(column, str(name), category) for category in categories)
    if not parts:
        raise CommandError("The table has no feature columns besides the target: add one.")
    return pd.concat(parts, axis=1)


def features_like(table: "pd.DataFrame", names: list[str]) -> "pd.DataFrame":
    """Return the features ``names`` that a model was fitted with, computed from another table."""
    import pandas as pd

    parts = []
    for name in names:
        if name in table:
            _check_complete(name, table[name])
            parts.append(table[name].astype(float))
            continue
        ends = [i for i, letter in enumerate(name) if letter == "=" and name[:i] in table]
        if not ends:
            missing = name.partition("=")[0]
            raise CommandError(f"The model needs the column {missing!r}, which this table does not have.")
        column, category = name[: ends[0]], name[ends[0] + 1 :]
        parts.append(_indicator(table[column], column, category))
    return pd.concat(parts, axis=1)


def _indicator(column: "pd.Series", name: str, category: str) -> "pd.Series":
    return (column.astype(str) == category).astype(float).rename(f"{name}={category}")


def _check_complete(name: str, column: "pd.Series") -> None:
    if column.isna().any():
        raise CommandError(
            f"The column {name!r} is empty in {int(column.isna().sum())} rows: fill them, drop them, or --ignore {name}."
        )
