"""A member: one network to train, with its rows of the data and its own hyper-parameters."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vadam.gaussian import MeanFieldGaussian
from vadam.likelihoods import outputs_for

ARRAYS = ("x", "y", "weight", "train", "test", "init", "earlier")


@dataclass(frozen=True, eq=False)
class Member:
    """Data, rows and hyper-parameters of one network.

    Args:
        x, y: inputs [n, ...] and targets [n] or [n, O]; classes are numbers from 0. Members may share them: nothing is
            copied before the training.
        weight: of every row [n], by which its log-likelihood is multiplied; scaled so that the training rows have the mean 1.
        train, test: row numbers. By default all rows are trained on, and none is tested.
        seed: of the first weights, the order of the minibatches and all noise.
        prior_precision, lr, num_data, temperature: arguments of the rule, instead of the method's; ``num_data`` is by default
            the number of training rows.
        noise_precision: τ of the targets' noise, for targets scaled to variance 1 if the training standardises them.
        dropout: the rate, for MC-Dropout.
        epochs: passes over the rows, instead of the training's.
        init: weights to start from, by name; by default what the module's own initialisation draws from the seed.
        earlier: a posterior of the same weights and temperature from earlier data, which is the prior and the start instead.
    """

    x: Any
    y: Any
    train: Sequence[int] | Any | None = None
    test: Sequence[int] | Any | None = None
    seed: int = 0
    prior_precision: float | None = None
    noise_precision: float = 1.0
    dropout: float = 0.0
    lr: float | None = None
    num_data: float | None = None
    temperature: float | None = None
    epochs: int | None = None
    init: Mapping[str, Tensor] | None = None
    weight: Any = None
    earlier: MeanFieldGaussian | None = None

    def check(self, name: str) -> None:
        """Raise ValueError if the rows or the numbers besides the rule's are wrong; the method checks the rule's."""
        n = len(self.x)
        if n == 0 or len(self.y) != n:
            raise ValueError(
                f"{name} has {n} rows of x and {len(self.y)} of y: give as many targets as inputs, at least one"
            )
        for field, rows in (("train", self.train), ("test", self.test)):
            if rows is None:
                continue
            rows = np.asarray(rows)
            if rows.size == 0 or rows.dtype.kind not in "iu" or not 0 <= rows.min() <= rows.max() < n:
                raise ValueError(
                    f"{field}={_short(rows)} of {name} is not valid: give row numbers from 0 to {n - 1}, at least one"
                )
        if self.weight is not None:
            weight = np.asarray(self.weight)
            if weight.shape != (n,) or not (np.isfinite(weight).all() and (weight >= 0).all()):
                raise ValueError(f"weight of {name} is not valid: give {n} numbers from 0, one for each row")
        positive = {
            "noise_precision": self.noise_precision,
            "temperature": self.temperature,
            "epochs": self.epochs,
        }
        for field, value in positive.items():
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{field}={value!r} of {name} is not valid: it must be a finite number above 0")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout={self.dropout!r} of {name} is not valid: the rate goes from 0 to below 1")

    @property
    def train_rows(self) -> int:
        return len(self.x) if self.train is None else len(self.train)


NUMBERS = tuple(field.name for field in fields(Member) if field.name not in (*ARRAYS, "seed"))


class Scaling(NamedTuple):
    """Standardisation by the training rows: x ↦ (x − x_mean)/x_std, y ↦ (y − y_mean)/y_std.

    Constant columns are not scaled.
    """

    x_mean: Tensor
    x_std: Tensor
    y_mean: Tensor
    y_std: Tensor

    @classmethod
    def of(cls, x: Tensor, y: Tensor, *, inputs: bool, targets: bool) -> Scaling:
        x_mean, x_std = _mean_and_std(x) if inputs else (torch.zeros_like(x[0]), torch.ones_like(x[0]))
        y_mean, y_std = _mean_and_std(y) if targets else (torch.zeros_like(y[0]), torch.ones_like(y[0]))
        return cls(x_mean, x_std, y_mean, y_std)

    def x(self, x: Tensor) -> Tensor:
        return (x - self.x_mean) / self.x_std

    def y(self, y: Tensor) -> Tensor:
        return (y - self.y_mean) / self.y_std


def rows_of(member: Member, rows: Any, *, likelihood: str, outputs: int) -> tuple[Tensor, Tensor]:
    """Return inputs and targets of some rows in float64: targets as [n, O], classes one-hot."""
    x, y = (copied(values, rows).double() for values in (member.x, member.y))
    if not (x.isfinite().all() and y.isfinite().all()):
        raise ValueError("x or y holds a value that is not finite: fill or drop these rows first")
    if likelihood == "categorical":
        if y.dim() != 1:
            raise ValueError(f"y must hold one class a row, got the shape {list(y.shape)}")
        if bool((wrong := (y < 0) | (y >= outputs) | (y != y.round())).any()):
            raise ValueError(
                f"classes must be whole numbers from 0 to {outputs - 1} for a network with {outputs} outputs, but y holds "
                f"{float(y[wrong][0]):g}"
            )
        return x, torch.nn.functional.one_hot(y.long(), outputs).double()
    y = y.unsqueeze(-1) if y.dim() == 1 else y
    if y.dim() != 2 or outputs_for(likelihood, y.shape[1]) != outputs:
        raise ValueError(
            f"y has {list(y.shape[1:])} targets a row, which do not fit {outputs} outputs for the likelihood {likelihood!r}: give the "
            f"network one output for each target, or two with 'input-noise'"
        )
    if likelihood == "poisson" and bool((wrong := (y < 0) | (y != y.round())).any()):
        raise ValueError(
            f"the Poisson likelihood takes counts, whole numbers from 0, but y holds {float(y[wrong][0]):g}"
        )
    if likelihood == "bernoulli" and bool((wrong := (y != 0) & (y != 1)).any()):
        raise ValueError(f"the Bernoulli likelihood takes labels 0 and 1, but y holds {float(y[wrong][0]):g}")
    return x, y


def weights_of(member: Member, dtype: torch.dtype) -> Tensor:
    """Return the weights of the training rows, with the mean 1."""
    if member.weight is None:
        return torch.ones(member.train_rows, dtype=dtype)
    weight = copied(member.weight, member.train).double()
    if not weight.sum() > 0:
        raise ValueError("all training rows of a member have the weight 0: give some of them a positive one")
    return (weight / weight.mean()).to(dtype)


def copied(values: Any, rows: Any = None) -> Tensor:
    """Return a copy of some or all rows, because torch needs writable arrays."""
    if isinstance(values, Tensor):
        return values.clone() if rows is None else values[torch.as_tensor(np.array(rows))]
    array = np.asarray(values)
    return torch.from_numpy(np.array(array if rows is None else array[np.asarray(rows)]))


def contents(members: Sequence[Member]) -> dict[str, Any]:
    """Return everything that defines the members apart from their seeds, by field: checksums of arrays, and numbers."""
    known: dict[int, Any] = {}  # members often share their arrays: each is read once

    def digest(values: Any) -> Any:
        if id(values) not in known:
            known[id(values)] = _digest(values)
        return known[id(values)]

    found: dict[str, Any] = {}
    for field in ARRAYS:
        digests = json.dumps([digest(getattr(member, field)) for member in members], sort_keys=True)
        found[field] = hashlib.sha256(digests.encode()).hexdigest()[:16]
    for field in NUMBERS:
        values = [getattr(member, field) for member in members]
        numbers = [None if value is None else float(value) for value in values]
        found[field] = numbers[0] if len(set(numbers)) == 1 else numbers
    return found


def _digest(values: Any) -> Any:
    if values is None:
        return None
    if isinstance(values, MeanFieldGaussian):
        values = {"mean": values.mean, "precision": values.precision}
    if isinstance(values, Mapping):
        return {name: _digest(value) for name, value in values.items()}
    array = copied(values).detach().cpu().double().numpy()
    return hashlib.sha256(str(array.shape).encode() + array.tobytes()).hexdigest()


def _mean_and_std(values: Tensor) -> tuple[Tensor, Tensor]:
    std = values.std(0) if len(values) > 1 else torch.zeros_like(values[0])
    constant = std <= 1e-12 * values.abs().amax(0)  # rounding leaves a constant column a tiny deviation
    return values.mean(0), torch.where(constant, torch.ones_like(std), std)


def _short(rows: np.ndarray) -> str:
    return str(rows.tolist()) if len(rows) < 8 else f"{rows[:3].tolist()} … ({len(rows)} rows)"
