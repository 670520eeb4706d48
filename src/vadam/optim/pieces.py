"""The weights as a few long vectors: a large tensor is one by itself, small ones are laid end to end.

An operation on a long vector costs what its memory costs; on a thousand short ones it costs a thousand calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._C import TensorBase

from vadam.optim.distributed import local
from vadam.optim.sample import storage_dtype

SMALL = 1 << 16  # weights of a tensor that is packed with others, at most
PACK = 1 << 18  # weights of a pack, at most

Group = dict[str, Any]
Slot = Sequence[Tensor] | Tensor  # one tensor for each parameter of a piece, or a vector for all of them


class Piece:
    """Parameters of one group whose states agree in their ``numbers``, and the rule that trains them."""

    def __init__(self, group: Group, params: list[Tensor], rule: Any, numbers: dict[str, float]) -> None:
        self.group, self.params, self.rule, self.numbers = group, params, rule, numbers
        self.dtype = storage_dtype(params[0])
        self.layouts: dict[Any, Any] = {}  # of native tables
        self.places: dict[int, tuple[Slot, list[int]]] = {}  # where the tensors of slots that stay were found in memory
        self.stored: Stored | None = None
        self.is_native: bool | None = None  # whether native loops can work on it, once they have looked

    @cached_property
    def bounds(self) -> list[int]:
        """Where each parameter begins when they are laid end to end, and where the last one ends."""
        return [0, *accumulate(local(p).numel() for p in self.params)]

    @cached_property
    def sizes(self) -> list[int]:
        return [high - low for low, high in pairwise(self.bounds)]

    @property
    def size(self) -> int:
        return self.bounds[-1]

    def vector(self, slot: Slot) -> Tensor:
        """One tensor for each parameter, end to end: where there is one it is a view, if it can be. A vector stays what it is."""
        if isinstance(slot, Tensor):
            return slot
        flat = [local(x.detach()).reshape(-1) for x in slot]
        return (flat[0] if len(flat) == 1 else torch.cat(flat)).to(self.dtype)

    def room(self, slot: Slot) -> Tensor:
        """A vector to be written to a slot."""
        return (
            slot if isinstance(slot, Tensor) else torch.empty(self.size, dtype=self.dtype, device=self.params[0].device)
        )

    def write(self, vector: Tensor, slot: Slot) -> None:
        """The other way; nothing is to be done where the vector is a view."""
        if isinstance(slot, Tensor):
            return
        targets = [local(x.detach()) for x in slot]
        if len(targets) > 1 or not _is_view(vector, targets[0]):
            torch._foreach_copy_(targets, self.split(vector))

    def split(self, vector: Tensor) -> list[Tensor]:
        shards = [local(p) for p in self.params]
        return [x.view(p.shape) for x, p in zip(vector.split([p.numel() for p in shards]), shards, strict=True)]


class Stored:
    """What an optimizer's state holds of a piece's parameters: the vectors of the rule, and the numbers in which they agree."""

    def __init__(self, states: list[dict[str, Tensor]], vectors: Sequence[str], numbers: Sequence[str]) -> None:
        fields = {name: [state[name] for state in states] for name in (*vectors, *numbers)}
        self._kept = states, fields  # alive, so that their ids are theirs
        self._states = [id(state) for state in states]
        self._fields = {name: [id(x) for x in slot] for name, slot in fields.items()}
        self.vectors: list[Slot] = [fields[name] for name in vectors]
        self._numbers = {name: Cells(fields[name]) for name in numbers}

    def is_found_in(self, states: list[dict[str, Tensor]], numbers: dict[str, float] | None) -> bool:
        """Whether the same tensors are still there, with these numbers."""
        if [*map(id, states)] != self._states:
            return False
        for name, tensors in self._fields.items():
            if [id(state.get(name)) for state in states] != tensors:
                return False
        return numbers is None or all(cells.hold(numbers[name]) for name, cells in self._numbers.items())

    def write(self, numbers: dict[str, float]) -> None:
        for name, cells in self._numbers.items():
            cells.fill(numbers[name])


class Cells:
    """A number of the states of some parameters, a tensor for each: read and written in memory, where that is possible."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self._tensors = tensors
        known = (torch.float64, torch.float32)
        in_memory = all(type(x) is Tensor and x.device.type == "cpu" and x.dtype in known for x in tensors)
        self._arrays = [x.detach().numpy() for x in tensors] if in_memory else None
        self._places = [x.data_ptr() for x in tensors]

    def hold(self, value: float) -> bool:
        if self._arrays is None:
            return all(x.item() == value for x in self._tensors)
        found = [*map(TensorBase.data_ptr, self._tensors)] == self._places
        return found and [*map(np.ndarray.item, self._arrays)].count(value) == len(self._arrays)

    def fill(self, value: float) -> None:
        if self._arrays is None:
            for x in self._tensors:
                x.fill_(value)
        else:
            for array in self._arrays:
                array.fill(value)


def _is_view(vector: Tensor, x: Tensor) -> bool:
    return vector.data_ptr() == x.data_ptr() and vector.dtype == x.dtype


def pack(group: Group, rule: Any, weights: Iterable[tuple[Tensor, dict[str, float]]]) -> list[Piece]:
    """Weights of one group, and the numbers of their states, as pieces: in their order as far as they share a pack."""
    pieces: list[Piece] = []
    open_packs: dict[Any, tuple[Piece, int]] = {}
    for p, numbers in weights:
        size = local(p).numel()
        kind = (p.dtype, p.device, *numbers.values())
        piece, filled = open_packs.get(kind, (None, PACK))
        if size <= SMALL and piece is not None and filled + size <= PACK:
            piece.params.append(p)
            open_packs[kind] = piece, filled + size
            continue
        pieces.append(Piece(group, [p], rule, numbers))
        if size <= SMALL:
            open_packs[kind] = pieces[-1], size
    return pieces
