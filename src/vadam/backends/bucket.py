"""Weights that are computed together: parameters that share a rule, its arguments, a dtype, a device and the scalars of their states.

An operation on a long vector costs what its memory costs; on a thousand short ones it costs a thousand calls. So small tensors
can be laid end to end in one vector, up to a limit that bounds the temporaries; a large tensor is a vector by itself.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from itertools import starmap, zip_longest
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch._C import TensorBase

from vadam.backends.shards import local, sharded_like
from vadam.rules.binding import RuleArgs, scalar_fields, scope

Grads = dict[Tensor, Tensor]
"""One tensor for each of several parameters, such as their gradients, curvatures or factors."""


class Gradients(Grads):
    """The gradients of a step."""

    rows: Any = None  # cached by the native backend: where the gradients lay when they were checked


HALF = (torch.float16, torch.bfloat16)
# Weights of a vector. On a CPU a bucket should stay in the cache; on other devices every bucket costs some forty launches.
LIMIT = {"cpu": 1 << 18, "accelerator": 1 << 24}


def storage_dtype(p: Tensor) -> torch.dtype:
    """Return float32 for half-precision weights: an average with decay 0.999 does not move in bfloat16."""
    return torch.float32 if p.dtype in HALF else p.dtype


_ABSENT = object()


def are_same(some: Collection[Any], others: Collection[Any]) -> bool:
    """Return True if two collections hold the same objects in the same order."""
    return False not in starmap(operator.is_, zip_longest(some, others, fillvalue=_ABSENT))


Vectors = dict[str, Any]
"""The weights of a bucket, and what belongs to them, as one vector each."""
Memory = tuple[list[int], list[int], list[Any] | None]
"""Addresses of tensors and their sizes in bytes, and their strides; None if all are contiguous."""

_bytes = TensorBase.nbytes.__get__  # type: ignore[attr-defined]


def memory_of(tensors: Sequence[Tensor]) -> Memory:
    """Return addresses, sizes and strides of tensors; methods are mapped, because a Python loop over many small tensors is slow."""
    strides = [*map(TensorBase.stride, tensors)] if False in map(TensorBase.is_contiguous, tensors) else None
    return [*map(TensorBase.data_ptr, tensors)], [*map(_bytes, tensors)], strides


class Bucket:
    """Parameters of one group and their states, the rule that trains them and its arguments.

    An argument is a number, or per weight: a list with one tensor for each parameter, in its shape. The scalars of the state must not
    depend on an argument per weight.
    """

    def __init__(
        self,
        rule: ModuleType,
        rule_args: RuleArgs,
        params: list[Tensor],
        states: list[dict[str, Any]],
        *,
        sampled: bool = True,
        overlaps: bool = False,
    ) -> None:
        self.rule, self.rule_args, self.params, self.states = rule, rule_args, params, states
        self.sampled, self.overlaps = sampled, overlaps
        self.args_per_weight = names_per_weight(rule_args)
        self.start = (
            0  # position of the first parameter among all that are trained together, where they are consecutive
        )
        self.numbers: dict[
            Any, list[float]
        ] = {}  # cached by the native backend: the arguments of a function of the rule
        self.rows: Any = None  # cached by the native backend: where the parameters lay when the bucket was made

    def with_args(self, rule_args: RuleArgs) -> Bucket:
        """Return a bucket of the same parameters with other arguments."""
        other = Bucket.__new__(Bucket)
        other.__dict__.update(self.__dict__)
        other.rule_args, other.args_per_weight, other.numbers = rule_args, names_per_weight(rule_args), {}
        return other

    def parts(self) -> list[Bucket]:
        """Cut the bucket: small tensors together up to the limit, a large tensor by itself."""
        if scope(self.rule) != "weight":
            return [self]
        limit = LIMIT["cpu" if self.device.type == "cpu" else "accelerator"]
        parts: list[list[int]] = []
        filling: list[int] = []
        filled = limit + 1
        for i, p in enumerate(self.params):
            size = p.numel()
            if size > limit // 4:
                parts.append([i])
                continue
            if filled + size > limit:
                filling, filled = [], 0
                parts.append(filling)
            filling.append(i)
            filled += size
        return [self] if len(parts) == 1 else [self.only(members) for members in parts]

    def only(self, members: Sequence[int]) -> Bucket:
        """Return a bucket with some of the parameters, given by their positions."""
        params, states = [self.params[i] for i in members], [self.states[i] for i in members]
        rule_args = args_of(self.rule_args, members)
        return Bucket(self.rule, rule_args, params, states, sampled=self.sampled, overlaps=self.overlaps)

    def vector_args(self) -> RuleArgs:
        """Return the arguments of the rule; those per weight as one vector each."""
        names = self.args_per_weight
        if not names:
            return self.rule_args
        vectors = self.gather(*[self.rule_args[name] for name in names])
        return {**self.rule_args, **dict(zip(names, vectors, strict=True))}

    @cached_property
    def dtype(self) -> torch.dtype:
        """Return the dtype of state and noise."""
        return storage_dtype(self.params[0])

    @property
    def device(self) -> torch.device:
        return self.params[0].device

    @cached_property
    def sizes(self) -> list[int]:
        """Return the number of weights that each parameter has on this rank."""
        return [local(p).numel() for p in self.params]

    @cached_property
    def size(self) -> int:
        return sum(self.sizes)

    @cached_property
    def orders(self) -> list[list[int] | None]:
        """Return the order in memory of each parameter's axes at the first use, None if contiguous; vectors keep it."""
        return [None if x.is_contiguous() else _axes(x) for x in map(local, self.params)]

    def scalars(self) -> dict[str, float]:
        """Return the scalars of the states, in which all parameters of the bucket agree."""
        return {name: float(self.states[0][name]) for name in scalar_fields(self.rule)}

    def scalars_agree(self) -> bool:
        """Return True if the scalars of all parameters are equal."""
        names = scalar_fields(self.rule)
        return not names or len({*map(operator.itemgetter(*names), self.states)}) == 1

    def set_scalars(self, values: Mapping[str, Any]) -> None:
        """Write the scalars into the state of every parameter, as numbers of Python."""
        numbers = {name: float(value) for name, value in values.items()}
        for state in self.states:
            state.update(numbers)

    def select(self, tensors: Grads) -> list[Tensor]:
        """Return the tensors of the bucket's parameters, one for each."""
        members = slice(self.start, self.start + len(self.params))
        if are_same([*tensors][members], self.params):
            return [*tensors.values()][members]  # without a hash of every parameter
        return [tensors[p] for p in self.params]

    def field(self, name: str) -> list[Tensor]:
        """Return the tensors of one field of the state; one tensor if the rule sees the whole model."""
        states = self.states[:1] if scope(self.rule) == "model" else self.states
        return [state[name] for state in states]

    def gather(self, *slots: Sequence[Tensor]) -> list[Tensor]:
        """Return one vector for each list of tensors: a view of a single tensor where possible, otherwise a copy.

        Several tensors are copied by one operation. What has another shape than the parameters (the state of a rule that sees tensors
        or the model) stays as it is.
        """
        if scope(self.rule) != "weight":
            return [self._whole(tensors) for tensors in slots]
        flat = [self._flat(x, i) for tensors in slots for i, x in enumerate(tensors)]
        if len(self.params) == 1:
            return [x.to(self.dtype) for x in flat]
        return list(torch.cat(flat).to(self.dtype).view(len(slots), self.size).unbind()) if flat else []

    def scatter(self, vectors: Sequence[Tensor], *slots: Sequence[Tensor]) -> None:
        """Copy each vector back into its list of tensors by one operation; no-op for a view of them."""
        targets: list[Tensor] = []
        parts: list[Tensor] = []
        for vector, tensors in zip(map(_finite_in, vectors, slots), slots, strict=True):
            if scope(self.rule) != "weight" and tensors[0].shape == vector.shape:
                own, pieces = [local(tensors[0].detach())], [vector]
            else:
                shards = [_permuted(local(x.detach()), self.orders[i]) for i, x in enumerate(tensors)]
                pairs = zip(shards, vector.split(self.sizes), strict=True)
                # A tensor of another size was given other data since and keeps them.
                fitting = [(t, x.view(t.shape)) for t, x in pairs if t.numel() == x.numel()]
                own, pieces = [t for t, _ in fitting], [x for _, x in fitting]
            if len(own) > 1 or (own and not _shares_memory(vector, own[0])):
                targets += own
                parts += pieces
        if any(target.is_neg() for target in targets):  # no foreach operation writes to negated views
            for target, part in zip(targets, parts, strict=True):
                target.copy_(part)
        elif targets:
            torch._foreach_copy_(targets, parts)

    def split(self, vector: Tensor) -> list[Tensor]:
        """Return views of a vector in the shapes of the parameters."""
        if scope(self.rule) == "tensor":
            return [vector.view(self.params[0].shape)]
        parts = zip(self.params, vector.split(self.sizes), self.orders, strict=True)
        return [sharded_like(p, _in_order_of(local(p), x, order)) for p, x, order in parts]

    def is_view(self, vector: Tensor) -> bool:
        """Return True if the vector shares its memory with a parameter."""
        return len(self.params) == 1 and _shares_memory(vector, local(self.params[0]))

    def _flat(self, x: Tensor, i: int) -> Tensor:
        own, like = local(x.detach()), local(self.params[i])
        if own.numel() != like.numel():
            raise RuntimeError(wrong_size(own, like))
        return _permuted(own, self.orders[i]).reshape(-1)

    def _whole(self, tensors: Sequence[Tensor]) -> Tensor:
        if scope(self.rule) == "tensor":
            return tensors[0].detach().to(self.dtype)
        if len(tensors) != len(self.params) or tensors[0].shape != self.params[0].shape:
            return tensors[0].detach()
        return torch.cat([x.detach().flatten() for x in tensors])


def wrong_size(x: Tensor, p: Tensor) -> str:
    """Return the error message for a tensor whose number of elements differs from its parameter's."""
    return (
        f"a tensor of {x.numel()} numbers belongs to {p.numel()} weights of shape {tuple(p.shape)}: was a parameter given other "
        f"data, or the optimizer the state of another model? Build a new optimizer for a model of another size"
    )


def _shares_memory(a: Tensor, b: Tensor) -> bool:
    return torch._C._is_alias_of(a, b)  # type: ignore[attr-defined]


def _axes(p: Tensor) -> list[int]:
    strides = p.stride()
    return sorted(range(p.dim()), key=lambda axis: -strides[axis])


def _finite_in(vector: Tensor, tensors: Sequence[Tensor]) -> Tensor:
    """Return a vector with numbers that half-precision tensors, if these are such, can hold."""
    if not tensors or tensors[0].dtype.itemsize >= vector.dtype.itemsize:
        return vector
    largest = torch.finfo(tensors[0].dtype).max
    return vector.clamp(-largest, largest)


def _permuted(x: Tensor, order: list[int] | None) -> Tensor:
    """Permute the axes so that a dense tensor that lies in memory in this order becomes contiguous, e.g. channels-last weights."""
    return x if order is None else x.permute(order)


def _in_order_of(p: Tensor, vector: Tensor, order: list[int] | None) -> Tensor:
    """Return a view of a vector in the shape of ``p``."""
    if order is None:
        return vector.view(p.shape)
    return vector.view([p.shape[axis] for axis in order]).permute([order.index(axis) for axis in range(p.dim())])


def names_per_weight(rule_args: RuleArgs) -> tuple[str, ...]:
    """Return the names of the arguments that are lists of tensors."""
    if list not in map(type, rule_args.values()):
        return ()
    return tuple(name for name, value in rule_args.items() if isinstance(value, list))


def args_of(rule_args: RuleArgs, members: Sequence[int]) -> RuleArgs:
    """Return the arguments of the parameters at some positions: of a list of tensors, the tensors at these positions."""
    if list not in map(type, rule_args.values()):
        return rule_args
    return {k: [v[i] for i in members] if isinstance(v, list) else v for k, v in rule_args.items()}


def make_buckets(
    rule: ModuleType,
    rule_args: RuleArgs,
    params: list[Tensor],
    states: list[dict[str, Any]],
    *,
    sampled: bool,
    overlaps: bool = False,
) -> list[Bucket]:
    """Sort the parameters of a group into buckets. ``overlaps``: True if some parameters of the optimizer share memory."""
    whole = Bucket(rule, rule_args, params, states, sampled=sampled, overlaps=overlaps)
    if scope(rule) == "tensor":
        return [whole.only([i]) for i in range(len(params))]
    names = scalar_fields(rule)
    pairs = zip(params, states, strict=True)
    kinds = [(p.dtype, p.device, *map(float, map(state.__getitem__, names))) for p, state in pairs]
    if len({*kinds}) == 1:
        return [whole]
    alike: dict[Any, list[int]] = {}
    for i, kind in enumerate(kinds):
        alike.setdefault(kind, []).append(i)
    return [whole.only(members) for members in alike.values()]
