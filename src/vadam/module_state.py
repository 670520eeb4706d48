"""Leave a model as it was: its modes, and what it keeps in attributes during a forward pass."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import is_
from typing import Any

import torch
from torch import Tensor, nn

TORCHS_OWN = frozenset(vars(nn.Module()))
"""Attributes of every module: its parameters, buffers, children and hooks."""


@contextmanager
def in_eval_mode(model: nn.Module) -> Iterator[Callable[[], None]]:
    """Switch the model to evaluation mode; on exit restore every module's mode and attributes.

    Yields a function that restores the attributes between two passes, such as a hidden state. The flags are set without a call
    of ``eval``, which adapters override to merge their weights into those of a layer for good.
    """
    modules = [*model.modules()]
    modes = [module.training for module in modules]  # a scripted module has no such attribute of its own
    with attributes_kept(model) as restore:
        try:
            for module in modules:
                module.training = False
            yield restore
        finally:
            for module, mode in zip(modules, modes, strict=True):
                module.training = mode


@contextmanager
def attributes_kept(model: nn.Module) -> Iterator[Callable[[], None]]:
    """Restore the attributes of every module on exit, but for its mode and what is written to parameters and buffers.

    Yields a function that does so at once.
    """
    modules = [*model.modules()]
    attributes = [{name: value for name, value in vars(module).items() if name != "training"} for module in modules]
    contents = _Contents(value for own in attributes for name, value in own.items() if name not in TORCHS_OWN)

    def restore() -> None:
        for module, known in zip(modules, attributes, strict=True):
            own = vars(module)
            own.update(known)
            for name in own.keys() - known.keys() - {"training"}:
                del own[name]
        contents.restore()

    try:
        yield restore
    finally:
        restore()


class _Contents:
    """Copies of lists, dicts, sets and tensors that a model may write to in place, and of what these hold."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._lists: list[tuple[list[Any] | deque[Any], list[Any]]] = []
        self._dicts: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        self._sets: list[tuple[set[Any], set[Any]]] = []
        self._tensors: list[tuple[Tensor, Tensor]] = []
        todo, seen = [*values], set[int]()
        while todo:
            value = todo.pop()
            if id(value) in seen or not isinstance(value, Tensor | list | deque | dict | set | tuple):
                continue
            seen.add(id(value))
            if isinstance(value, Tensor):
                if not (isinstance(value, nn.Parameter) or value.is_inference()):
                    self._tensors.append((value, value.detach().clone()))
            elif isinstance(value, dict):
                self._dicts.append((value, dict(value)))
                todo += value.values()
            elif isinstance(value, set):
                self._sets.append((value, set(value)))
            else:
                if not isinstance(value, tuple):
                    self._lists.append((value, [*value]))
                todo += value
        self._versions = [tensor._version for tensor, _ in self._tensors]

    def restore(self) -> None:
        """Give everything that was written to the contents that it had."""
        for items, known_items in self._lists:
            if len(items) != len(known_items) or not all(map(is_, items, known_items)):
                items.clear()
                items.extend(known_items)
        for entries, known in self._dicts:
            if entries.keys() != known.keys() or not all(map(is_, entries.values(), known.values())):
                entries.clear()
                entries.update(known)
        for members, known_members in self._sets:
            if members != known_members:
                members.clear()
                members.update(known_members)
        for i, (tensor, copy) in enumerate(self._tensors):
            if tensor._version != self._versions[i]:
                with torch.no_grad():
                    tensor.copy_(copy)
                self._versions[i] = tensor._version
