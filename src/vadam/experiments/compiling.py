"""Compiled where there is a compiler, plain where there is none."""

import warnings
from collections.abc import Callable
from typing import Any

import torch


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """``torch.compile(function)``; where that fails at its first call, the function as it is, and a warning."""
    chosen: Callable[..., Any] | None = None

    def call(*arguments: Any) -> Any:
        nonlocal chosen
        if chosen is not None:
            return chosen(*arguments)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what torch's compiler says to its own developers
                chosen = torch.compile(function, dynamic=False)
                return chosen(*arguments)
        except Exception as error:
            warnings.warn(f"Steps cannot be compiled here ({type(error).__name__}): this takes longer.", stacklevel=2)
            chosen = function
            return chosen(*arguments)

    return call
