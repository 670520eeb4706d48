"""Compute on the device of the data where ``torch.set_default_device`` names another one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def default_device(device: torch.device) -> AbstractContextManager[object]:
    """Make a device torch's default one inside the block; cheap where it is that already."""
    default = torch.get_default_device()
    return nullcontext() if default.type == device.type == "cpu" or default == device else device


def on_cpu(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function create its tensors on the CPU."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with default_device(torch.device("cpu")):
            return function(*args, **kwargs)

    return wrapped
