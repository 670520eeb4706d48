"""Buckets that are kept from step to step, and what they depend on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from torch import Tensor

from vadam.backends.bucket import Bucket, Memory, are_same, args_of, make_buckets, memory_of
from vadam.backends.shards import PLAIN, local
from vadam.optim.prior import LEARN_EVERY
from vadam.rules.binding import scope

if TYPE_CHECKING:
    from vadam.optim.rule_optimizer import RuleOptimizer


NOT_ARGUMENTS = {"params": None, "param_names": None}
IMMUTABLE = {bool, int, float, str, tuple, type(None)}


class BucketCache:
    """Parameters of an optimizer as buckets, kept while what the buckets depend on stays the same."""

    def __init__(self, params: list[Tensor], opt: RuleOptimizer) -> None:
        self.params = params
        self.sees_model = False
        self._memory = _memory_if_plain(params)
        self._settings = _settings(opt.param_groups)
        self._checked: dict[tuple[int, str], Any] = {}
        self._check_changed(opt)
        self._members: list[tuple[int, list[int]]] = []  # of each bucket: the group, positions in the group
        self.buckets: list[Bucket] = []
        wanted, overlaps = {*params}, _overlap(params, self._memory)
        for k, group in enumerate(opt.param_groups):
            rule, rule_args = opt._rule_and_args(group)
            position = {p: i for i, p in enumerate(group["params"]) if p in wanted}
            self.sees_model |= scope(rule) == "model"
            if scope(rule) == "model" or not position:
                continue
            own, own_args = [*position], args_of(rule_args, [*position.values()])
            states = opt._states_of(own, rule, group)
            sampled = not group["deterministic"]
            buckets = make_buckets(rule, own_args, own, states, sampled=sampled, overlaps=overlaps)
            self.buckets += buckets
            self._members += [(k, [position[p] for p in bucket.params]) for bucket in buckets]
        place = {p: i for i, p in enumerate(params)}
        for bucket in self.buckets:
            bucket.start = place[bucket.params[0]]
        self._states = [*opt.state.values()]
        self._state_sizes = [*map(len, self._states)]

    def is_current(self, opt: RuleOptimizer) -> bool:
        """Return True if memory, state and groups of the parameters are those of the buckets."""
        return (
            self._memory is not None
            and are_same(opt.state.values(), self._states)
            and [*map(len, self._states)] == self._state_sizes
            and _memory_if_plain(self.params) == self._memory
            and False not in map(Bucket.scalars_agree, self.buckets)
        )

    def refresh(self, opt: RuleOptimizer) -> bool:
        """Update the arguments of the buckets; return False if the buckets must be rebuilt."""
        if not self.is_current(opt):
            return False
        if self._settings is not None and are_same([*_values(opt.param_groups)], self._settings):
            return True
        self._check_changed(opt)
        known = [opt._rule_and_args(group) for group in opt.param_groups]
        refreshed: list[Bucket] = []
        for bucket, (k, members) in zip(self.buckets, self._members, strict=True):
            rule, rule_args = known[k]
            if bucket.sampled == opt.param_groups[k]["deterministic"]:
                opt._refuse_in_sample("deterministic was changed in a parameter group")
                return False
            if rule is not bucket.rule:
                return False
            refreshed.append(bucket.with_args(args_of(rule_args, members)))
        self.buckets, self._settings = refreshed, _settings(opt.param_groups)
        return True

    def _check_changed(self, opt: RuleOptimizer) -> None:
        """Refuse wrong arguments that were written into the groups, by a schedule for instance, before they reach the weights."""
        for k, group in enumerate(opt.param_groups):
            for argument in (*opt.rule.ARGUMENTS, LEARN_EVERY):
                key, value = (k, argument.name), group.get(argument.name)
                if value is not self._checked.get(key):
                    if argument.name != "prior" or not isinstance(value, str):
                        argument.check(value)
                    self._checked[key] = value


def _values(groups: list[dict[str, Any]]) -> Iterator[Any]:
    return chain.from_iterable(map(dict.values, groups))


def _settings(groups: list[dict[str, Any]]) -> list[Any] | None:
    """Return the values in parameter groups; None if an argument can change in place or stands for tensors."""
    for group in groups:
        settings = {**group, **NOT_ARGUMENTS}
        if not {*map(type, settings.values())} <= IMMUTABLE or isinstance(settings.get("prior"), str):
            return None
    return [*_values(groups)]


def _memory_if_plain(params: list[Tensor]) -> Memory | None:
    """Return where parameters lie in memory; None if one of them, such as a shard, does not own its memory."""
    return memory_of(params) if {*map(type, params)} <= {*PLAIN} else None


def _overlap(params: list[Tensor], memory: Memory | None) -> bool:
    """Return True if parameters share memory."""
    if memory is None:
        tensors = [local(p) for p in params]
        if not all(x.is_cpu and type(x) in PLAIN for x in tensors):
            return False
        memory = memory_of(tensors)
    addresses, sizes, _ = memory
    places = sorted((start, start + size) for start, size in zip(addresses, sizes, strict=True) if start)
    return any(end > following for (_, end), (following, _) in pairwise(places))
