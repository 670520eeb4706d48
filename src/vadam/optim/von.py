"""VON: variational online Newton, from the Hessian's diagonal or an estimate of it."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, Unpack

import torch
import torch.distributed as dist
from torch import Tensor

from vadam import curvature as curvatures
from vadam import rules
from vadam.backends.bucket import Bucket, Grads, storage_dtype
from vadam.backends.measures import curvature_vector
from vadam.backends.shards import is_sharded, whole
from vadam.interrupts import Uninterrupted, without_grad
from vadam.optim import checks
from vadam.optim.base import Closure
from vadam.optim.common_arguments import CommonArguments
from vadam.optim.recovery import ClosureCall
from vadam.optim.reparameterised import Reparameterised
from vadam.optim.rule_optimizer import Group
from vadam.optim.sample import Owner, Sample
from vadam.optim.second_order import SecondOrder
from vadam.optim.signature import group_arguments
from vadam.rules.arguments import Argument
from vadam.rules.binding import call


class VON(SecondOrder, Reparameterised):
    r"""Variational Online Newton (paper §3.1, App. D), with natural momentum (§4) if asked for.

    Input: α (``lr``), 1 − β (``beta``, the decay rate), γ̄ (``momentum``), N (``num_data``), λ (``prior_precision``),
    τ (``tau``), ξ (``step_bound``)

    .. code-block:: text

        θ ← μ + σ∘ε,  σ = 1/√(N s + τλ)
        ĝ ← minibatch gradient of f at θ,  ĥ ← diagonal of its Hessian there
        s₊ ← (1 − τβ) s + β ĥ
        p ← max((1 − β) p, |ĝ|∞),  d = max(s₊ + τλ/N, p/ξ)
        μ ← μ − α (ĝ + τλ/N μ)/d + γ̄ (s + τλ/N)/d ∘ (μ − μ₋)

    ``curvature`` says where ĥ comes from:

    - "reparam": ĝ∘ε/σ (App. D.1), for any differentiable model and all three ways of use;
    - "exact": the Hessian's diagonal, for small models; "hutchinson": its estimate with ``probes`` random vectors. Both
      differentiate twice: the closure returns the loss and does not call ``backward()``;
    - "score": for objectives without a gradient, from values alone. The closure returns a number F(θ); ĝ = F ε/σ and
      ĥ = F (ε² − 1)/σ², where the mean of F over the other samples is subtracted to reduce the variance.

    The denominator d is at least the largest gradient of the last 1/β steps / ξ, so that ĝ moves no weight by more than α ξ. This changes
    the lengths of steps, not where they end, and not s; ``step_bound=math.inf`` is the paper's VON.

    ĥ may be negative. Back-tracking (App. D.1) shortens β so that the precision stays positive; ``backtrack`` is its margin δ. The
    other arguments, ``exact_momentum`` among them, are those of :class:`vadam.Vadam` and :class:`vadam.VOGN`.
    """

    rule = rules.von

    @group_arguments
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-1,
        beta: float = 0.999,
        *,
        num_data: float,
        prior_precision: float = 1.0,
        init_precision: float | str | None = None,
        curvature: str = "reparam",
        probes: int = 1,
        limit: int = 20_000,
        backtrack: float = 0.5,
        momentum: float = 0.0,
        exact_momentum: bool = False,
        damping: float = 0.0,
        tau: float = 1.0,
        step_bound: float = 1.0,
        **common: Unpack[CommonArguments],
    ) -> None:
        checks.one_of("curvature", curvature, ("reparam", "exact", "hutchinson", "score"))
        checks.whole("probes", probes, low=1)
        checks.whole("limit", limit, low=1)
        Argument("backtrack", 0.5, "(0, 1)", "Margin δ of back-tracking.").check(backtrack)
        self.curvature, self.probes, self.limit, self.backtrack = curvature, probes, limit, backtrack

    def add_param_group(self, param_group: Group) -> None:
        """Add a group; with exact curvature all weights must stay within the limit."""
        super().add_param_group(param_group)
        weights = sum(p.numel() for p in self._sampled())
        if self.curvature == "exact" and weights > self.limit:
            self.param_groups.pop()
            raise ValueError(
                f"the exact Hessian diagonal of {weights} weights takes as many backward passes, more than limit={self.limit!r} "
                f"allows: use curvature='hutchinson' or 'reparam', or raise the limit"
            )

    @property
    def has_loop(self) -> bool:  # type: ignore[override]
        """True if ĥ comes from the gradient alone."""
        return self.curvature == "reparam"

    def _described(self) -> str:
        return f"curvature={self.curvature!r}"

    def _check(self, group: Group) -> None:
        super()._check(group)
        if self.curvature == "score" and group["deterministic"]:
            raise ValueError(
                "curvature='score' takes no gradient, so a deterministic group would never be trained: freeze its parameters, or choose "
                "another curvature"
            )

    # Where ĥ comes from ------------------------------------------------------------------------------------------------------

    def _curvatures(self, sample: Sample, grads: Grads) -> Grads:
        h = super()._curvatures(sample, grads)
        return h if self.has_loop else {p: x for p, x in h.items() if p not in set(sample.params)}

    def _differentiate(self, loss: Tensor, params: list[Tensor]) -> tuple[Sequence[Tensor], Grads]:
        if self.curvature == "exact":
            grads, diagonal = curvatures.hessian_diagonal(loss, params, limit=self.limit)
        else:
            grads, diagonal = curvatures.hutchinson(loss, params, probes=self.probes, generator=self.generator)
        return grads, dict(zip(params, diagonal, strict=True))

    def _step_with(self, closure: Closure) -> Any:
        return self._step_from_values(closure) if self.curvature == "score" else super()._step_with(closure)

    def _step_from_values(self, closure: Closure) -> Any:
        """Take a step from the values of the objective alone: each is centred by the mean of the other samples'."""
        self.eval()
        self._reset_step()
        drawn: list[tuple[Sample, Grads, Tensor]] = []
        holder = ClosureCall()
        self._holder = weakref.ref(holder)
        try:
            for _ in range(self.samples):
                with Uninterrupted():
                    sample = self._open_sample(Owner.CLOSURE)
                value = without_grad(closure)()
                if value is None:  # how a trainer says that it leaves this batch out
                    self._skip()
                    return None
                with Uninterrupted():
                    drawn.append((sample, sample.draw.noise(), _value(value)))
                    self._weights.close()
            with Uninterrupted():
                self._update_by(*self._score_estimates(drawn))
        finally:
            self._drop_step()
        return sum(value for _, _, value in drawn) / len(drawn)

    def _score_estimates(self, drawn: list[tuple[Sample, Grads, Tensor]]) -> tuple[Grads, Grads]:
        """Return ĝ and ĥ from samples, their noise and the values of the objective."""
        g: Grads = {p: torch.zeros_like(p) for p in self._sampled()}
        h: Grads = {p: torch.zeros_like(p) for p in self._sampled()}
        precision = dict(self._precisions(self._sampled()))
        pairs: dict[Any, list[Tensor]] = {}  # the values of each noise: one, or those of an antithetic pair
        for sample, _, value in drawn:
            pairs.setdefault(sample.noise, []).append(value)
        total = sum(value for _, _, value in drawn)
        for sample, eps, value in drawn:
            own = pairs[sample.noise]
            others = len(drawn) - len(own)
            centred = value - (total - sum(own)) / others if others else value
            for p in g:
                g[p] += curvatures.score_gradient(centred, eps[p], precision[p]) / len(drawn)
                h[p] += curvatures.score_curvature(centred, eps[p], precision[p]) / len(drawn)
        return g, h

    # The bound of a step -----------------------------------------------------------------------------------------------------

    def _states_of(self, params: list[Tensor], rule: ModuleType, group: Group) -> list[dict[str, Any]]:
        """Return the rule's states, and with a bound of the step the largest recent gradient of each parameter."""
        states = super()._states_of(params, rule, group)
        if not group["deterministic"] and group["step_bound"] < math.inf:
            for p, state in zip(params, states, strict=True):
                if "peak" not in state:
                    state["peak"] = torch.zeros((), dtype=storage_dtype(p), device=p.device)
        return states

    def _apply(self, g: Grads, h: Grads, scale: Grads | None, accept: Tensor | None) -> None:
        """Record the largest gradient of each parameter, then apply the rule."""
        for group in self.param_groups:
            params = [p for p in group["params"] if p in g and p.numel() and "peak" in self.state[p]]
            for device in dict.fromkeys(p.device for p in params):
                here = [p for p in params if p.device == device]
                old = torch.stack([self.state[p]["peak"] for p in here])
                grads = [whole(g[p]) for p in here]  # a rank's own shard may be empty
                norms = torch.stack(torch._foreach_norm(grads, math.inf))
                new = rules.von.new_peak(old, norms, beta=1 - group["beta"])
                kept = new if accept is None else torch.where(accept.to(device), new, old)
                for p, peak in zip(here, kept.unbind(), strict=True):
                    self.state[p]["peak"] = peak
        super()._apply(g, h, scale, accept)

    def _peak(self, bucket: Bucket) -> Tensor | float:
        """Return the largest recent gradient of all sampled weights; 0 if no step is bounded."""
        peaks = [state["peak"].to(bucket.device, bucket.dtype) for state in self.state.values() if "peak" in state]
        return torch.stack(peaks).max() if peaks else 0.0

    def _buckets_to_update(self, g: Grads, h: Grads, scale: Grads | None) -> list[Bucket]:
        """Return the buckets with the largest β, as a fraction of what was asked for, that keeps every precision positive.

        The largest recent gradient, which bounds a step, is that of all weights.
        """
        fraction = self._feasible_fraction(g, h, scale)
        return [
            bucket.with_args(
                {**bucket.rule_args, "beta": bucket.rule_args["beta"] * fraction, "peak": self._peak(bucket)}
            )
            if bucket.sampled
            else bucket
            for bucket in super()._buckets_to_update(g, h, scale)
        ]

    def _feasible_fraction(self, g: Grads, h: Grads, scale: Grads | None) -> Tensor | float:
        fraction: Tensor | None = None
        for bucket in self._buckets([p for p in self._sampled() if p in g]):
            feasible = torch.ones((), dtype=bucket.dtype, device=bucket.device)
            if bucket.size:  # a rank's own shards may be empty
                (s,) = bucket.gather(bucket.field("s"))
                found = curvature_vector(bucket, h, scale)
                rule_args = {**bucket.vector_args(), "delta": self.backtrack}
                feasible = call(rules.von.feasible_beta, s, found, rule_args=rule_args) / bucket.rule_args["beta"]
            if is_sharded(bucket.params[0]):  # one β for all shards
                dist.all_reduce(feasible, dist.ReduceOp.MIN, group=bucket.params[0].device_mesh.get_group())  # type: ignore[attr-defined]
            fraction = feasible if fraction is None else torch.minimum(fraction, feasible.to(fraction))
        return 1.0 if fraction is None else fraction


def _value(value: Any) -> Tensor:
    """Return the objective at a sample as a tensor of one number."""
    if isinstance(value, Tensor) and value.numel() == 1:
        return value.detach().reshape(())
    if isinstance(value, (Tensor, bool, str)) or not hasattr(value, "__float__"):
        raise TypeError(
            f"with curvature='score' the closure returns the objective as one number, not a {type(value).__name__}"
        )
    return torch.tensor(float(value), dtype=torch.float64, device="cpu")
