"""Summarise a posterior: the parts of its precision that come from the prior, the start and the data.

σ⁻² = data + start + prior,  e.g. for Vadam  N s/w + N s₀ + λ
"""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

LITTLE = 0.01
"""Share of the data below which a posterior says nothing about them."""


class Shares(NamedTuple):
    """The fractions of the precision from the prior and from the start, means over a tensor's weights."""

    prior: float
    start: float

    @property
    def data(self) -> float:
        """Return the fraction that comes from the data."""
        return max(0.0, 1 - self.prior - self.start)


@dataclass(frozen=True)
class Row:
    """One parameter: its weights, typical sizes of mean and deviation, and the shares if known."""

    name: str
    weights: int
    abs_mean: float
    stddev: float
    snr: float
    shares: Shares | None


@dataclass(frozen=True)
class Summary:
    """Rows for the parameters, the shares over all weights, and advice; ``str(summary)`` is a table."""

    rows: tuple[Row, ...]
    shares: Shares | None
    advice: tuple[str, ...]
    settings: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        mean: Mapping[str, Tensor],
        precision: Mapping[str, Tensor],
        shares: Mapping[str, Shares],
        temperature: Mapping[str, float] | None = None,
    ) -> Summary:
        """Return the summary of a mean-field Gaussian."""
        rows = tuple(_row(name, mu, precision[name], shares.get(name)) for name, mu in mean.items() if mu.numel())
        total = overall(shares, {row.name: row.weights for row in rows})
        return cls(rows, total, tuple(advice(total)), settings(temperature={*(temperature or {}).values()}))

    def __str__(self) -> str:
        width = max([len("parameter"), *(len(row.name) for row in self.rows)])
        head = f"{'parameter':<{width}}  {'weights':>10}  {'|mean|':>8}  {'std':>8}  {'SNR':>7}  {'prior':>6}  {'start':>6}  {'data':>6}"
        lines = [head, *(_line(row, width) for row in self.rows)]
        if self.shares is not None:
            weights = sum(row.weights for row in self.rows)
            lines.append(f"{'all':<{width}}  {weights:>10,}  {'':>8}  {'':>8}  {'':>7}  {_percentages(self.shares)}")
        return "\n".join([*lines, *self.settings, *self.advice])

    __repr__ = __str__


def overall(shares: Mapping[str, Shares], weights: Mapping[str, int]) -> Shares | None:
    """Return the shares over all weights together, or None if they are not known."""
    known = {name: count for name, count in weights.items() if name in shares}
    total = sum(known.values())
    if not total:
        return None
    parts = [(shares[name], count / total) for name, count in known.items()]
    return Shares(sum(part.prior * w for part, w in parts), sum(part.start * w for part, w in parts))


def settings(**values: set[float]) -> tuple[str, ...]:
    """Return a line for each setting, as temperature, that is not 1 for all parameters."""
    lines = {name: ", ".join(f"{x:g}" for x in sorted(found)) for name, found in values.items() if found - {1.0}}
    return tuple(f"{name} {numbers}" for name, numbers in lines.items())


class UninformedPosterior(UserWarning):
    """Warns that a posterior says nothing about the data: its precision is all start or all prior."""


_WARNED_ABOUT: weakref.WeakSet[Any] = weakref.WeakSet()


def warn_if_uninformed(post: Any) -> None:
    """Warn, once for each posterior, if the precision is all start or all prior, so that its spread says nothing about the data."""
    for part in getattr(post, "components", (post,)):
        known = getattr(part, "shares", None)
        shares = overall(known, {name: mu.numel() for name, mu in part.mean.items()}) if known else None
        if is_uninformed(shares) and part not in _WARNED_ABOUT:
            _WARNED_ABOUT.add(part)
            warnings.warn(" ".join(advice(shares)), UninformedPosterior, stacklevel=3)


def is_uninformed(shares: Shares | None) -> bool:
    """Return True if all but a hundredth of a posterior's precision is the start's and the prior's."""
    return shares is not None and shares.data < LITTLE


def advice(shares: Shares | None) -> list[str]:
    """Return advice about a posterior that depends little on the data; an empty list if there is none."""
    if shares is None or not (is_uninformed(shares) or shares.start >= 0.5):
        return []
    if shares.start > shares.prior:
        return [
            f"{shares.start:.0%} of the precision is the start (init_precision), which has not faded: train longer, or lower the "
            f"decay rate of the curvature (betas[1] or beta; 0.99 suits 500 to 5,000 steps)."
        ]
    return [
        f"{shares.prior:.1%} of the precision is the prior's: the data have hardly changed it. Give batch_size to Vadam or "
        f"Vprop, use VOGN or IVON, raise data_weight, or check that num_data is the number of training examples."
    ]


def _row(name: str, mu: Tensor, precision: Tensor, shares: Shares | None) -> Row:
    sigma = precision.double().rsqrt()
    size = mu.double().abs()
    abs_mean, stddev, snr = (float(x.median()) for x in (size, sigma, size / sigma))
    return Row(name, mu.numel(), abs_mean, stddev, snr, shares)


def _line(row: Row, width: int) -> str:
    numbers = f"{row.name:<{width}}  {row.weights:>10,}  {row.abs_mean:>8.2g}  {row.stddev:>8.2g}  {row.snr:>7.2g}"
    return numbers if row.shares is None else f"{numbers}  {_percentages(row.shares)}"


def _percentages(shares: Shares) -> str:
    parts = (shares.prior, shares.start, shares.data)
    return "  ".join("     –" if math.isnan(part) else f"{part:>6.1%}" for part in parts)
