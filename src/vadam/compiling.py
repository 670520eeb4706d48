"""Compile functions with ``torch.compile``, and fall back to the original where compilation fails."""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import FunctionType
from typing import Any

import torch

RECENT = hasattr(torch.compiler, "keep_tensor_guards_unsafe")
"""True for torch 2.8 or newer, where ``torch.compile`` accepts options of any type."""


def compiled(
    function: Callable[..., Any],
    *,
    subject: str,
    consequence: str,
    otherwise: Callable[..., Any] | None = None,
    options: dict[str, Any] | None = None,
    **how: Any,
) -> Callable[..., Any]:
    """Return ``torch.compile(function, **how)``, with a fallback.

    If compilation fails at the first call, warn, and run ``otherwise`` (default: the function itself) from then on.
    The warning says that ``subject`` cannot be compiled here, and the ``consequence``.
    """
    assert isinstance(function, FunctionType)
    # Copy the code object: torch counts compilations per code object and gives up after a few.
    code, name = function.__code__.replace(), function.__name__
    own = FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)
    own.__kwdefaults__ = function.__kwdefaults__
    fast = torch.compile(own, options={**_vector_width(), **(options or {})} or None, **how)
    plain = otherwise or function
    works: bool | None = None

    def compiled_or_plain(*arguments: Any) -> Any:
        nonlocal works
        if works is not False:
            try:
                with _quiet_compiler() if works is None else nullcontext():
                    if works is None:
                        check_cache()
                    result = fast(*arguments)
                works = True
                return result
            except Exception as error:  # raised by the compiler, before anything has run
                reason = " ".join(str(error).split("\n\n")[0].split())
                warnings.warn(
                    f"{subject} cannot be compiled here, {consequence} ({type(error).__name__}: {reason})", stacklevel=3
                )
                works = False
        return plain(*arguments)

    return compiled_or_plain


def _vector_width() -> dict[str, Any]:
    """Return the vector width of this processor as a compiler option, so that it enters the cache key.

    Without it, a processor with wider vectors than the one that wrote the cache runs the loops of the narrower one and
    writes past the ends of its tensors. This happens when machines share a disk.
    """
    bits = {"AVX2": 256, "AVX512": 512}.get(torch.backends.cpu.get_cpu_capability())
    return {"cpp.simdlen": bits} if bits and RECENT else {}


def check_cache() -> None:
    """Raise PermissionError if torch's cache of native code belongs to somebody else; take write access to it from others.

    By default it is a folder with a known name below the temporary folder, where every user of a machine could plant code.
    """
    if not hasattr(os, "getuid"):
        return
    from torch._inductor.codecache import cache_dir

    folder = cache_dir()
    os.makedirs(folder, mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(
            f"the cache of compiled code, {folder!r}, belongs to another user: set TORCHINDUCTOR_CACHE_DIR to a folder of your own"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        os.chmod(folder, stat.S_IMODE(found.st_mode) & ~(stat.S_IWGRP | stat.S_IWOTH))


@contextmanager
def _quiet_compiler() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings meant for the developers of torch's compiler
        yield
