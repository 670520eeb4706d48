"""Functions through ``torch.compile``, and as they are where nothing can be compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import FunctionType
from typing import Any

import torch

RECENT = hasattr(torch.compiler, "keep_tensor_guards_unsafe")
"""torch 2.8 or newer: ``torch.compile`` takes options of any type."""


def compiled(
    function: Callable[..., Any],
    *,
    subject: str,
    consequence: str,
    otherwise: Callable[..., Any] | None = None,
    options: dict[str, Any] | None = None,
    **how: Any,
) -> Callable[..., Any]:
    """``torch.compile(function, **how)``; where the compiler fails, ``otherwise`` or the function itself, and a warning.

    The warning says that ``subject`` cannot be compiled here, and the ``consequence``.
    """
    assert isinstance(function, FunctionType)
    # A code object of its own: torch counts compilations per code object and gives up after a few.
    code, name = function.__code__.replace(), function.__name__
    own = FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)
    own.__kwdefaults__ = function.__kwdefaults__
    fast = torch.compile(own, options={**_width_of_vectors(), **(options or {})} or None, **how)
    plain = otherwise or function
    works: bool | None = None

    def run_what_works(*arguments: Any) -> Any:
        nonlocal works
        if works is not False:
            try:
                with _first_time() if works is None else nullcontext():
                    result = fast(*arguments)
                works = True
                return result
            except Exception as error:  # of the compiler: it has not run anything yet
                reason = " ".join(str(error).split("\n\n")[0].split())
                warnings.warn(f"{subject} cannot be compiled here, {consequence} ({type(error).__name__}: {reason})", stacklevel=3)
                works = False
        return plain(*arguments)

    return run_what_works


def _width_of_vectors() -> dict[str, Any]:
    """As an option it is part of the name under which torch keeps compiled code on the disk.

    Without it, a processor with wider vectors than the one that wrote the cache (another machine with the same disk, or this one
    moved) takes the loops of the narrower and writes past the ends of its tensors.
    """
    bits = {"AVX2": 256, "AVX512": 512}.get(torch.backends.cpu.get_cpu_capability())
    return {"cpp.simdlen": bits} if bits and RECENT else {}


@contextmanager
def _first_time() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what torch's compiler says to its own developers
        yield
