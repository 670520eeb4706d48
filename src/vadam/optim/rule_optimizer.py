"""A rule over the parameters of an optimizer: its arguments, its state, its buckets, its backend."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from vadam import backends, rules
from vadam.backends.bucket import Bucket, are_same, storage_dtype
from vadam.backends.shards import whole
from vadam.optim import prior
from vadam.optim.bucket_cache import BucketCache
from vadam.optim.model_bucket import model_bucket
from vadam.optim.resume import Resumable
from vadam.rules import arguments
from vadam.rules.binding import RuleArgs, bind, call, rule_for

Group = dict[str, Any]


class RuleOptimizer(Resumable):
    """A torch optimizer whose parameters are trained by a rule of ``vadam.rules``."""

    rule: ModuleType
    #: True if the rule makes sense for weights that are not sampled, where ĥ = ĝ∘ĝ; otherwise those are trained by Adam.
    supports_deterministic: bool = False

    backend: str
    _caches: list[BucketCache]  # the last two: of everything that is trained, and of a part of it

    def rule_of(self, group: Group) -> ModuleType:
        """Return the rule that trains the sampled weights of a group."""
        return rule_for(self.rule, group)

    def _check(self, group: Group) -> None:
        """Refuse a parameter group with wrong arguments; fill in those that default to others."""
        kept = prior.check(group) if "prior" in group else None
        if isinstance(kept, str):
            group["prior"] = 0.0
        if kept == "posterior" and "init_precision" in group:
            group["init_precision"] = "prior"
        arguments.check(self.rule.ARGUMENTS, group)
        if kept is not None:
            group["prior"] = kept

    def _rule_and_args(self, group: Group) -> tuple[ModuleType, RuleArgs]:
        """Return the rule of a group and its arguments: numbers, or lists with a tensor for each parameter of the group."""
        rule, numbers = self._rule_and_numbers(group)
        return rule, prior.per_weight(numbers, group, self.state)

    def _rule_and_numbers(self, group: Group) -> tuple[ModuleType, RuleArgs]:
        """Return the rule of a group and those of its arguments that are numbers."""
        if group["deterministic"] and not self.supports_deterministic:
            values = {**arguments.defaults(rules.vadam.ARGUMENTS), **group}
            start = values["prior_precision"] / values["temperature"]
            adam = {"betas": (0.9, 0.999), "tau": 1.0, "init_precision": start, "batch_size": None}
            return rules.vadam, rules.vadam.rule_args({**values, **adam})
        rule = self.rule_of(group)
        return rule, bind(rule, group)

    # The parameters ----------------------------------------------------------------------------------------------------------

    def _grouped(self) -> Iterator[tuple[Group, Tensor]]:
        return ((group, p) for group in self.param_groups for p in group["params"])

    def _trained(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"] if p.requires_grad]

    def _sampled(self) -> list[Tensor]:
        groups = self.param_groups
        return [p for group in groups if not group["deterministic"] for p in group["params"] if p.requires_grad]

    def _buckets(self, params: Collection[Tensor] | None = None, *, sampled: bool = False) -> list[Bucket]:
        """Sort parameters, by default all that are trained or ``sampled``, into buckets, with arguments and state as they are.

        The buckets are kept from step to step while parameters, state and what belongs together stay the same.
        """
        wanted = self._trained() if params is None else params
        for cache in self._caches:
            if are_same(wanted, cache.params) and cache.refresh(self):
                break
        else:
            current = [cache for cache in self._caches if not are_same(wanted, cache.params) and cache.is_current(self)]
            cache = BucketCache([*wanted], self)
            self._caches = [cache, *current[:1]]
        buckets = [bucket for bucket in cache.buckets if bucket.sampled] if sampled else cache.buckets
        return buckets + model_bucket(self, {*wanted}) if cache.sees_model else buckets

    def _refuse_in_sample(self, change: str) -> None:
        """Raise if a change of the parameter groups meets an unfinished step: its sample is of the groups as they were."""
        if not self._weights.is_idle:
            raise RuntimeError(f"{change} while the weights hold a sample: change it between steps, after step()")

    def _states_of(self, params: list[Tensor], rule: ModuleType, group: Group) -> list[dict[str, Any]]:
        """Return the rule's state of each parameter of a group; make it at its first use."""
        states, fields = [self.state[p] for p in params], rule.State._fields[1:]
        for i in {i for i, state in enumerate(states) for name in fields if name not in state}:
            with torch.inference_mode(False):  # the state outlives a posterior asked for in inference mode
                mu = params[i].detach().to(storage_dtype(params[i])).clone()
                numbers = self._rule_and_numbers(group)[1]
                fresh = call(rule.init, mu, rule_args=prior.at_start(rule, numbers, group, states[i]))
            for name in fields:
                states[i].setdefault(name, getattr(fresh, name))
        return states

    def _precisions(self, params: Collection[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield sampled parameters, in the given order, with their precisions in their shapes.

        Each is computed by itself, so that its bits do not depend on the others.
        """
        place = {p: (bucket, i) for bucket in self._buckets(params) for i, p in enumerate(bucket.params)}
        for p in params:
            bucket, i = place[p]
            alone = bucket.only([i])
            yield p, alone.split(self._backend.precision(alone))[0]

    def _variances(self, group: Group) -> Iterator[tuple[Tensor, Tensor]]:
        """Return each trained parameter of a group with the posterior variances of its weights, whole on every rank."""
        learned = [p for p in group["params"] if p.requires_grad and self.state.get(p)]
        return ((p, 1 / whole(precision)) for p, precision in self._precisions(learned))

    @property
    def _backend(self) -> backends.Backend:
        return backends.choose(self.backend)
