"""Operands of a log-likelihood: targets, numbers and noise in the shape and dtype of the outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._C._functorch import peek_interpreter_stack


def as_tensor(values: Any, like: Tensor | None = None) -> Tensor:
    """Return an array, a list or a pandas column as a tensor, on the device of ``like``; a tensor stays as it is."""
    if isinstance(values, Tensor):
        return values
    array = np.array(values)
    if array.dtype == object:  # a column of numbers and gaps, or of numbers that pandas keeps as objects
        array = array.astype(np.float64)
    elif array.dtype.kind == "u" and array.itemsize > 1:  # torch computes with none of these
        array = array.astype(np.int64)
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="))).to("cpu" if like is None else like.device)


def as_numbers(values: Any, like: Tensor | None = None) -> Tensor:
    """Return values as a tensor of numbers whose means are accurate: float32 or wider, float64 for whole numbers."""
    x = as_tensor(values, like)
    return x.to(torch.promote_types(x.dtype, torch.float32)) if x.is_floating_point() else x.double()


def like_output(y: Tensor, output: Tensor) -> Tensor:
    """Reshape targets [B] and [B, 1] to the shape of the outputs; raise ValueError for any other mismatch.

    Broadcasting [B] against [B, 1] would silently compare every target with every output.
    """
    y = with_last_axis_of(output, y)
    if y.shape == output.shape:
        return y
    raise ValueError(
        f"targets of shape {list(y.shape)} do not fit outputs of shape {list(output.shape)}: give one target for each output"
    )


def with_last_axis_of(output: Tensor, y: Tensor) -> Tensor:
    """Return numbers [B] for outputs [B, 1] as [B, 1], and [B, 1] for [B] as [B]; all others stay as they are."""
    if (*y.shape, 1) == output.shape:
        return y.unsqueeze(-1)
    return y.squeeze(-1) if y.shape == (*output.shape, 1) else y


def wide(output: Tensor) -> Tensor:
    """Convert outputs to float32 or wider, because squares overflow in half precision."""
    return output.to(torch.promote_types(output.dtype, torch.float32))


def weights_of(rows: Tensor, weight: Any) -> Tensor:
    """Return weights of rows [n] as numbers [n]; raise ValueError unless there is one for each row.

    Weights [n, 1] would count every row with the weights of all.
    """
    found = as_numbers(weight, rows)
    found = found.squeeze(-1) if found.dim() == 2 else found
    if found.shape != rows.shape:
        raise ValueError(f"weights of shape {list(found.shape)} do not fit {len(rows)} rows: give one for each row")
    return found


def noise_like(noise_precision: float | Tensor, output: Tensor) -> Tensor:
    """Return a noise precision on the device of the outputs; raise ValueError unless it broadcasts to their shape.

    One of [B] against outputs [B, 1] would silently give every output the noise of every row. It is not rounded to half precision,
    where 1e5 is infinite.
    """
    dtype = torch.promote_types(output.dtype, torch.float32)
    tau = torch.as_tensor(noise_precision, dtype=dtype, device=output.device)
    if tau.dim():
        last_axes = zip(reversed(tau.shape), reversed(output.shape), strict=False)
        if tau.dim() > output.dim() or any(size not in (1, full) for size, full in last_axes):
            raise ValueError(
                f"noise_precision of shape {list(tau.shape)} does not fit outputs of shape {list(output.shape)}: give one number, or a "
                f"tensor that broadcasts to the outputs, for a number a row of shape {[len(output), *[1] * (output.dim() - 1)]}"
            )
    return tau


def randn_like(output: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw standard normal noise in the shape of the outputs."""
    return torch.randn(output.shape, dtype=output.dtype, device=output.device, generator=generator)


def per_example(log_p: Tensor) -> Tensor:
    """Sum log-probabilities over all axes but the first, that of the examples."""
    return log_p.flatten(start_dim=1).sum(-1) if log_p.dim() > 1 else log_p


def check_range(y: Tensor, low: float, high: float, rule: str) -> None:
    """Raise ValueError if a target lies outside; looked at on the CPU only, and not while torch transforms or compiles the call."""
    if not y.is_cpu or not y.numel() or torch.compiler.is_compiling() or peek_interpreter_stack() is not None:
        return
    least, largest = (float(end) for end in y.detach().aminmax())
    if least < low or largest > high:
        raise ValueError(f"y holds {least if least < low else largest:g}: {rule}")


def refuse_gradient(name: str, value: float | Tensor) -> None:
    """Raise ValueError for a tensor that requires a gradient, which would be wrong."""
    if isinstance(value, Tensor) and value.requires_grad:
        raise ValueError(f"{name} is a number that no gradient reaches: choose it on validation data, and give a float")


def check_positive(name: str, value: float | Tensor, rule: str) -> None:
    """Raise ValueError unless a number, or every entry of a tensor, is positive and finite."""
    numbers = torch.as_tensor(value, device=None if isinstance(value, Tensor) else "cpu").detach()
    if not bool(((numbers > 0) & numbers.isfinite()).all()):
        raise ValueError(f"{name}={value!r} is not valid: {rule}")
