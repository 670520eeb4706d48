"""Tables in files, and the columns of numbers that a model sees of them.

A column of words becomes one column of zeros and ones for each word, named ``column=word``: the names alone say how to make
the same columns of another table.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from vadam.cli.errors import CommandError

if TYPE_CHECKING:
    import pandas as pd

MAX_WORDS = 50


def read(path: Path) -> "pd.DataFrame":
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError('Tables are read with pandas: pip install "vadam[sklearn]".') from error
    if not path.exists():
        raise CommandError(f"There is no file {path}.")
    readers = {".csv": pd.read_csv, ".parquet": pd.read_parquet, ".pq": pd.read_parquet}
    if path.suffix.lower() not in readers:
        raise CommandError(f"{path} is neither .csv nor .parquet.")
    try:
        return readers[path.suffix.lower()](path)
    except (ValueError, OSError, LookupError, RuntimeError, MemoryError) as error:
        raise CommandError(f"{path} cannot be read as a table: {error}") from error


def target_of(table: "pd.DataFrame", name: str) -> "pd.Series":
    if name not in table:
        raise CommandError(f"The table has no column {name!r}. Its columns: {', '.join(map(str, table.columns))}.")
    column = table[name]
    if column.isna().any():
        raise CommandError(f"The target {name!r} is missing in {int(column.isna().sum())} rows: fill or drop them.")
    return column


def features(table: "pd.DataFrame") -> "pd.DataFrame":
    """The numbers of a table to learn from."""
    import pandas as pd

    parts = []
    for name, column in table.items():
        if pd.api.types.is_numeric_dtype(column):
            _complete(str(name), column)
            parts.append(column.astype(float).rename(str(name)))
        else:
            words = sorted(column.dropna().astype(str).unique())
            if len(words) > MAX_WORDS:
                raise CommandError(
                    f"The column {name!r} has {len(words)} different words, more than {MAX_WORDS}: leave it out with "
                    f"--ignore {name}, or turn it into numbers."
                )
            parts.extend(_indicator(column, str(name), word) for word in words)
    if not parts:
        raise CommandError("The table has no column to learn from beside the target.")
    return pd.concat(parts, axis=1)


def features_like(table: "pd.DataFrame", names: list[str]) -> "pd.DataFrame":
    """The columns ``names`` that a model was fitted with, made of another table."""
    import pandas as pd

    parts = []
    for name in names:
        if name in table:
            _complete(name, table[name])
            parts.append(table[name].astype(float))
            continue
        ends = [i for i, letter in enumerate(name) if letter == "=" and name[:i] in table]
        if not ends:
            missing = name.partition("=")[0]
            raise CommandError(f"The model needs the column {missing!r}, which this table does not have.")
        column, word = name[: ends[0]], name[ends[0] + 1 :]
        parts.append(_indicator(table[column], column, word))
    return pd.concat(parts, axis=1)


def _indicator(column: "pd.Series", name: str, word: str) -> "pd.Series":
    return (column.astype(str) == word).astype(float).rename(f"{name}={word}")


def _complete(name: str, column: "pd.Series") -> None:
    if column.isna().any():
        raise CommandError(
            f"The column {name!r} is empty in {int(column.isna().sum())} rows: fill them, drop them, or --ignore {name}."
        )
