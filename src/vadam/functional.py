"""Run a module with other tensors in the place of its parameters and buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


def functional_call(
    module: nn.Module, tensors: Mapping[str, Tensor], args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None
) -> Any:
    """Return the outputs of a module with other parameters and buffers, as ``torch.func.functional_call`` does.

    Where a submodule stands in the module several times, torch's own leaves the other parameters in it.
    """
    return torch.func.functional_call(module, _places(module, tensors), args, kwargs, tie_weights=False)  # type: ignore[arg-type]


def _places(module: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a tensor for every place that is to change, each under one name: tied weights have several places."""
    names: dict[tuple[int, str], str] = {}
    given: dict[Tensor, tuple[str, Tensor]] = {}
    current: dict[str, Tensor] = {}
    known: set[str] = set()
    for prefix, owner in module.named_modules(remove_duplicate=False):
        for leaf, tensor in (*owner._parameters.items(), *owner._buffers.items()):
            if tensor is None:
                continue
            name = f"{prefix}.{leaf}" if prefix else leaf
            known.add(name)
            current[names.setdefault((id(owner), leaf), name)] = tensor
            if name in tensors:
                other, value = given.setdefault(tensor, (name, tensors[name]))
                if value is not tensors[name]:
                    raise ValueError(f"{other!r} and {name!r} are one tensor of the module: give one of them")
    unknown = {name: value for name, value in tensors.items() if name not in known}
    return unknown | {name: given[tensor][1] for name, tensor in current.items() if tensor in given}
