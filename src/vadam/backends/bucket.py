"""Weights that are computed together: parameters that share a rule, its letters, a dtype, a device and the scalars of their states.

An operation on a long vector costs what its memory costs; on a thousand short ones it costs a thousand calls. So small tensors
are laid end to end in one vector, up to a limit that bounds the temporaries; a large tensor is a vector by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from vadam.backends.shards import local
from vadam.rules.binding import Letters, scalar_fields, scope, vector_fields

# Weights of a vector. On a CPU a bucket should stay in the cache; on other devices every bucket costs some forty launches.
LIMIT = {"cpu": 1 << 18, "accelerator": 1 << 24}


def storage_dtype(p: Tensor) -> torch.dtype:
    """Return float32 for half-precision weights: an average with decay 0.999 does not move in bfloat16."""
    return torch.float32 if p.dtype in (torch.float16, torch.bfloat16) else p.dtype


class Bucket:
    """Parameters of one group and their states, the rule that trains them and its letters."""

    def __init__(self, rule: ModuleType, letters: Letters, params: list[Tensor], states: list[dict[str, Any]]) -> None:
        self.rule, self.letters, self.params, self.states = rule, letters, params, states

    @cached_property
    def dtype(self) -> torch.dtype:
        """The dtype of state and noise."""
        return storage_dtype(self.params[0])

    @property
    def device(self) -> torch.device:
        return self.params[0].device

    @cached_property
    def sizes(self) -> list[int]:
        """The number of weights of each parameter, on this rank."""
        return [local(p).numel() for p in self.params]

    @cached_property
    def size(self) -> int:
        return sum(self.sizes)

    def scalars(self) -> dict[str, float]:
        """Return the scalars of the states, in which all parameters of the bucket agree."""
        return {name: self.states[0][name] for name in scalar_fields(self.rule)}

    def set_scalars(self, values: dict[str, float]) -> None:
        """Write the scalars into the state of every parameter."""
        for state in self.states:
            state.update(values)

    def vectors(self) -> list[list[Tensor]]:
        """Return, for each vector of the rule's state, the tensors of the parameters; one tensor if the rule sees the model."""
        states = self.states[:1] if scope(self.rule) == "model" else self.states
        return [[state[name] for state in states] for name in vector_fields(self.rule)]

    def gather(self, tensors: Sequence[Tensor]) -> Tensor:
        """Return one vector of all weights: a view of a single tensor where possible, otherwise a copy."""
        if scope(self.rule) == "tensor":
            return local(tensors[0].detach()).to(self.dtype)
        flat = [
            _in_memory_order(local(x.detach()), local(p)).reshape(-1) for x, p in zip(tensors, self.params, strict=True)
        ]
        return (flat[0] if len(flat) == 1 else torch.cat(flat)).to(self.dtype)

    def is_view(self, vector: Tensor) -> bool:
        """Return True if the vector shares its memory with a parameter."""
        return len(self.params) == 1 and torch._C._is_alias_of(vector, local(self.params[0]))

    def gather_state(self, tensors: Sequence[Tensor]) -> Tensor:
        """Return one vector of a state's tensors; the state of a rule that sees tensors or the model stays as it is."""
        return self.gather(tensors) if scope(self.rule) == "weight" else tensors[0]

    def scatter(self, vector: Tensor, tensors: Sequence[Tensor]) -> None:
        """Copy a vector back into the tensors; no-op where it is a view of them. Half-precision weights stay finite."""
        if scope(self.rule) != "weight" and len(tensors) == 1 and tensors[0].shape == vector.shape:
            parts, targets = [vector], [local(tensors[0].detach())]
        else:
            targets = [_in_memory_order(local(x.detach()), local(p)) for x, p in zip(tensors, self.params, strict=True)]
            if len(targets) == 1 and torch._C._is_alias_of(vector, targets[0]):
                return
            parts = [x.view(t.shape) for x, t in zip(vector.split(self.sizes), targets, strict=True)]
        if targets[0].dtype != vector.dtype:
            largest = torch.finfo(targets[0].dtype).max
            parts = [x.clamp(-largest, largest) for x in parts]
        torch._foreach_copy_(targets, parts)


def _in_memory_order(x: Tensor, p: Tensor) -> Tensor:
    """Permute the axes so that a dense tensor with the strides of ``p`` becomes contiguous, e.g. channels-last weights."""
    return x if p.is_contiguous() else x.permute(sorted(range(p.dim()), key=lambda axis: -p.stride(axis)))


def make_buckets(
    weights: Iterable[tuple[ModuleType, Letters, list[tuple[Tensor, dict[str, Any]]]]],
) -> list[Bucket]:
    """Sort the parameters of groups, each with its rule and letters, into buckets."""
    buckets: list[Bucket] = []
    for rule, letters, params in weights:
        if scope(rule) == "weight":
            buckets += _pack(rule, letters, params)
        elif scope(rule) == "tensor":
            buckets += [Bucket(rule, letters, [p], [state]) for p, state in params]
        elif params:
            buckets.append(Bucket(rule, letters, [p for p, _ in params], [state for _, state in params]))
    return buckets


def _pack(rule: ModuleType, letters: Letters, params: list[tuple[Tensor, dict[str, Any]]]) -> Iterator[Bucket]:
    """Yield buckets of small tensors, in order as far as they share one, and buckets of one large tensor."""
    names = scalar_fields(rule)
    filling: dict[Any, tuple[Bucket, int]] = {}
    for p, state in params:
        limit = LIMIT["cpu" if p.is_cpu else "accelerator"]
        kind = (p.dtype, p.device, *[state[name] for name in names])
        size = p.numel()
        bucket, filled = filling.get(kind, (None, limit))
        if bucket is not None and size <= limit // 4 and filled + size <= limit:
            bucket.params.append(p)
            bucket.states.append(state)
            filling[kind] = bucket, filled + size
            continue
        bucket = Bucket(rule, letters, [p], [state])
        if size <= limit // 4:
            filling[kind] = bucket, size
        yield bucket
