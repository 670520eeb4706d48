"""The table of an artefact: the paper's number beside ours under either protocol."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Table:
    caption: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)


def number(value: float | None, digits: int = 3) -> str:
    """Significant digits without an exponent for everyday sizes; a dash where there is nothing."""
    if value is None:
        return "–"
    text = f"{value:.{digits}g}"
    return text if "e" not in text else f"{value:.{digits - 1}e}"


def median_and_quartiles(values: tuple[float, float, float], digits: int = 4) -> str:
    low, middle, high = values
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
