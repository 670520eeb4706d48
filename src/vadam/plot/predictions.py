"""Draw predictions: a curve with its uncertainty, calibration, and what refusing the least certain answers gains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from vadam import metrics
from vadam.likelihoods import as_tensor, like_output
from vadam.plot.axes import as_array, axes_or_new
from vadam.prediction import Binary, Classes, Prediction, Regression

if TYPE_CHECKING:
    from matplotlib.axes import Axes


PARTS_OF_A_JUMP = 50
"""Number of parts over which the probability of a count is spread."""


def band(
    pred: Regression,
    x: Tensor,
    *,
    level: float = 0.9,
    data: tuple[Tensor, Tensor] | None = None,
    ax: Axes | None = None,
    color: Any = None,
    label: str | None = None,
) -> Axes:
    """Draw the mean against one input, the interval that holds a target with probability ``level``, and the part without noise.

    ``x`` [n] or [n, 1] are the inputs of the prediction, in any order. ``data`` are observed (x, y) to show as points. The
    faint band is the whole interval, the strong one its epistemic part: the same quantiles of the function alone.
    """
    _require(pred, Regression, "band")
    x = as_tensor(x).flatten()
    if pred.mean.numel() != len(x):
        raise ValueError(
            f"band draws one output against one input, but the prediction has {list(pred.mean.shape)} values for {len(x)} inputs"
        )
    order = x.argsort()
    function = Regression(pred._means)
    ends = {alpha: [end.flatten()[order] for end in p.interval(level)] for alpha, p in ((0.18, pred), (0.3, function))}
    ax = axes_or_new(ax)
    at = as_array(x[order])
    (line,) = ax.plot(at, as_array(pred.mean.flatten()[order]), color=color, label=label or "mean")
    for (alpha, (low, high)), name in zip(ends.items(), (f"{level:.0%} interval", "epistemic part"), strict=True):
        look: dict[str, Any] = {"color": line.get_color(), "alpha": alpha, "label": None if label else name}
        ax.fill_between(at, as_array(low), as_array(high), linewidth=0, **look)
    if data is not None:
        points = [as_array(as_tensor(values).flatten()) for values in data]
        ax.plot(*points, ".", color="0.35", markersize=3, zorder=0, label=None if label else "data")
    return ax


def reliability(
    pred: Prediction, y: Tensor, *, bins: int = 10, ax: Axes | None = None, color: Any = None, label: str | None = None
) -> Axes:
    """Draw how often a prediction is right against how often it says so; a calibrated one lies on the diagonal.

    Classes: accuracy against mean confidence in each of ``bins`` intervals of confidence; a larger marker has more examples.
    Numbers: the share of targets below each quantile against its probability. A count is spread evenly over the jump of its
    probability, from P(Y < y) to P(Y ≤ y).
    """
    ax = axes_or_new(ax)
    if not any(line.get_gid() == "diagonal" for line in ax.lines):
        ax.plot([0, 1], [0, 1], color="0.5", linewidth=0.8, gid="diagonal")
    if isinstance(pred, Classes):
        probs, y = pred.probs, as_tensor(y, pred.samples)
        if isinstance(pred, Binary):
            probs, y = probs.flatten(), like_output(y, probs).flatten()
        stated, observed, count = metrics.reliability_curve(probs, y, bins)
        name = f"{label or type(pred).__name__}, ECE {float(metrics.ece(probs, y, bins)):.3f}"
        (line,) = ax.plot(as_array(stated), as_array(observed), color=color, label=name)
        ax.scatter(
            as_array(stated), as_array(observed), s=10 + 150 * as_array(count / count.sum()), color=line.get_color()
        )
        ax.set(xlabel="confidence", ylabel="accuracy")
    else:
        _require(pred, Regression, "reliability")
        pit = _transforms(pred, as_tensor(y, pred.samples))
        stated, observed = metrics.calibration_curve(pit)
        name = f"{label or 'prediction'}, error {float(metrics.calibration_error(pit)):.3f}"
        ax.plot(as_array(stated), as_array(observed), ".-", color=color, label=name)
        ax.set(xlabel="probability of the quantile", ylabel="share of targets below it")
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.legend()
    return ax


def rejection(
    pred: Prediction,
    y: Tensor,
    *,
    uncertainty: Tensor | None = None,
    ax: Axes | None = None,
    color: Any = None,
    label: str | None = None,
) -> Axes:
    """Draw the error of the answers that remain when the least certain are refused, against the share that is answered.

    The error is the share of wrong classes, or the root of the mean squared error of numbers. ``uncertainty`` [n] orders the
    examples: by default the entropy, or the standard deviation.
    """
    y = as_tensor(y, pred.samples)
    if isinstance(pred, Classes):
        order, loss = (
            pred.entropy.flatten(),
            (pred.label != like_output(y, pred.label)).flatten().to(pred.entropy.dtype),
        )
        name = "share of wrong answers"
    else:
        _require(pred, Regression, "rejection")
        order, loss = pred.std.flatten(), (pred.mean - like_output(y, pred.mean)).square().flatten()
        name = "RMSE"
    share, risk = metrics.risk_coverage_curve(
        order if uncertainty is None else as_tensor(uncertainty, loss).flatten(), loss
    )
    risk = risk if isinstance(pred, Classes) else torch.sqrt(risk)
    ax = axes_or_new(ax)
    ax.plot(as_array(share), as_array(risk), color=color, label=label)
    ax.set(xlabel="share of examples answered", ylabel=name, xlim=(0, 1))
    ax.set_ylim(0, 1.05 * max(float(np.max(line.get_ydata())) for line in ax.lines) or 1.0)
    return ax


def _transforms(pred: Prediction, y: Tensor) -> Tensor:
    """Return the probability integral transforms of the targets, which are uniform for a calibrated prediction."""
    at = pred.cdf(y)
    if pred.likelihood is None or not pred._numbers.discrete:
        return at
    parts = (torch.arange(PARTS_OF_A_JUMP, dtype=at.dtype, device=at.device) + 0.5) / PARTS_OF_A_JUMP
    return torch.lerp(pred.cdf(y - 1), at, parts.view(-1, *[1] * at.dim()))


def _require(pred: Prediction, kind: type[Prediction], function: str) -> None:
    if not isinstance(pred, kind):
        raise TypeError(
            f"vadam.plot.{function} needs a {kind.__name__}, got {type(pred).__name__}: pass the likelihood of numbers to predict"
        )
