"""The wrappers that Lightning Fabric puts around a model and its optimizer, without importing Lightning."""

from __future__ import annotations

import sys
from typing import Any

from torch import nn

_WRAPPERS = ("lightning.fabric.wrappers", "lightning_fabric.wrappers")


def is_fabric_module(model: nn.Module) -> bool:
    """Return True for a module that ``Fabric.setup`` returned."""
    known = [wrappers._FabricModule for name in _WRAPPERS if (wrappers := sys.modules.get(name)) is not None]
    return isinstance(model, tuple(known))


def delegate(cls: type) -> None:
    """Let a class that Fabric makes from an optimizer's class use the optimizer inside for all that Fabric does not define.

    Fabric's object passes for an optimizer of the family, and has none of its state: what is written to it, the optimizer does not see.
    """
    wrapper = cls.__bases__[0]
    if wrapper.__module__ not in _WRAPPERS:
        return
    kept = {*vars(wrapper)}

    def get(self: Any, name: str) -> Any:
        own = object.__getattribute__(self, "__dict__")
        if name in own or name in kept or name.startswith("__"):
            return object.__getattribute__(self, name)
        return getattr(own["_optimizer"], name)

    cls.__getattribute__ = get  # type: ignore[assignment]
