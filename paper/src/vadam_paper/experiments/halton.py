"""Settings to try: points of the Halton sequence in ranges, all on a logarithmic scale."""

from collections.abc import Mapping

Range = tuple[float, float]
Settings = dict[str, float]
BASES = (2, 3, 5, 7)


def settings(ranges: Mapping[str, Range], trial: int) -> Settings:
    """Return the settings of a trial, two digits each; trials count from 0."""
    return {
        name: float(f"{low * (high / low) ** radical_inverse(trial + 1, base):.2g}")
        for base, (name, (low, high)) in zip(BASES, ranges.items(), strict=False)
    }


def radical_inverse(number: int, base: int) -> float:
    """Return the number in (0, 1) whose digits are those of a whole number, mirrored at the point."""
    found, place = 0.0, 1 / base
    while number:
        number, digit = divmod(number, base)
        found, place = found + digit * place, place / base
    return found
