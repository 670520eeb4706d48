"""VON: variational online Newton, from the Hessian's diagonal or an estimate of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

import torch
from torch import Tensor

from vadam import curvature as curvatures
from vadam import rules
from vadam.optim import checks
from vadam.optim.base import Closure, Group
from vadam.optim.common import Common
from vadam.optim.distributed import whole
from vadam.optim.estimate import Grads
from vadam.optim.newton import NewtonOptimizer
from vadam.optim.reparameterised import Reparameterised
from vadam.optim.ruled import Letters
from vadam.optim.sample import Sample


class VON(Reparameterised, NewtonOptimizer):
    r"""Variational Online Newton (paper §3.1, App. D), with natural momentum (§4) if asked for.

    Input: α (``lr``), 1 − β (``beta``, the weight of the old), γ̄ (``momentum``), N (``num_data``), λ (``prior_precision``),
    τ (``tau``)

    .. code-block:: text

        θ ← μ + σ∘ε,  σ = 1/√(N s + τλ)
        ĝ ← minibatch gradient of f at θ,  ĥ ← diagonal of its Hessian there
        s₊ ← (1 − τβ) s + β ĥ
        μ ← μ − α (ĝ + τλ/N μ)/(s₊ + τλ/N) + γ̄ (s + τλ/N)/(s₊ + τλ/N) ∘ (μ − μ₋)

    ``curvature`` says where ĥ comes from:

    - "reparam": ĝ∘ε/σ (App. D.1), for any differentiable model and all three ways of use;
    - "exact": the Hessian's diagonal, for small models; "hutchinson": its estimate with ``probes`` random vectors. Both
      differentiate twice: the closure returns the loss and does not call ``backward()``;
    - "score": for objectives without a gradient, from values alone. The closure returns a number F(θ); ĝ = F ε/σ and
      ĥ = F (ε² − 1)/σ², where the mean of F over the other samples is subtracted to reduce the variance.

    ĥ may be negative. Back-tracking (App. D.1) shortens β so that the precision stays positive; ``backtrack`` is its margin δ. The
    other arguments are those of :class:`vadam.Vadam` and :class:`vadam.VOGN`.
    """

    _recorded: Grads | None = None
    _shortened = 1.0

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        beta: float = 0.999,
        *,
        num_data: float,
        prior_precision: float = 1.0,
        init_precision: float | None = None,
        curvature: str = "reparam",
        probes: int = 1,
        limit: int = 20_000,
        backtrack: float = 0.5,
        momentum: float = 0.0,
        damping: float = 0.0,
        augmentation: float = 1.0,
        tau: float = 1.0,
        **common: Unpack[Common],
    ) -> None:
        checks.one_of("curvature", curvature, ("reparam", "exact", "hutchinson", "score"))
        checks.whole("probes", probes, low=1, fix="Hutchinson's estimate needs a whole number of probes from 1")
        checks.number(
            "backtrack", backtrack, low=0, high=1, fix="the margin of back-tracking lies between 0 and 1, e.g. 0.5"
        )
        checks.whole("limit", limit, low=1, fix="the largest number of weights is a whole number from 1")
        self.curvature, self.probes, self.limit, self.backtrack = curvature, probes, limit, backtrack
        super().__init__(
            params,
            lr,
            beta,
            num_data=num_data,
            prior_precision=prior_precision,
            init_precision=init_precision,
            momentum=momentum,
            damping=damping,
            augmentation=augmentation,
            tau=tau,
            **common,
        )
        weights = sum(p.numel() for _, p in self._sampled())
        if curvature == "exact" and weights > limit:
            raise ValueError(
                f"the exact Hessian diagonal of {weights} weights takes as many backward passes, more than limit={limit!r} "
                f"allows: use curvature='hutchinson' or 'reparam', or raise the limit"
            )

    @property
    def has_loop(self) -> bool:  # type: ignore[override]
        return self.curvature == "reparam"

    def _check(self, group: Group) -> None:
        super()._check(group)
        if self.curvature == "score" and group["deterministic"]:
            raise ValueError("curvature='score' takes no gradient, so a deterministic group would never be trained")

    def _letters(self, group: Group) -> Letters:
        letters = super()._letters(group)
        return letters._replace(rates={**letters.rates, "beta": letters.rates["beta"] * self._shortened})

    # Where ĥ comes from ------------------------------------------------------------------------------------------------------

    def step(self, closure: Closure | None = None) -> Any:
        if closure is None and self.curvature != "reparam":
            raise RuntimeError(
                f"curvature={self.curvature!r} needs step(closure): the optimizer evaluates the loss itself"
            )
        if closure is not None and self.curvature == "score" and self._held is None:
            return self._step_from_values(closure)
        return super().step(closure)

    def _curvatures(self, sample: Sample, grads: Grads) -> Grads:
        h = super()._curvatures(sample, grads)
        return (
            h if self.curvature == "reparam" else {p: x for p, x in h.items() if all(p is not q for q in sample.params)}
        )

    def _evaluate(self, closure: Closure) -> Any:
        if self.curvature == "reparam":
            return closure()
        loss = closure()
        if not isinstance(loss, Tensor) or not loss.requires_grad:
            raise TypeError(
                f"with curvature={self.curvature!r} the closure returns the loss as a tensor and does not call backward()"
            )
        sampled = [p for _, p in self._sampled()]
        points = [p for p in self._trained() if all(p is not q for q in sampled)]
        of_points = torch.autograd.grad(loss, points, retain_graph=True, materialize_grads=True) if points else ()
        if self.curvature == "exact":
            grads, diagonal = curvatures.hessian_diagonal(loss, sampled, limit=self.limit)
        else:
            grads, diagonal = curvatures.hutchinson(loss, sampled, probes=self.probes, generator=self.generator)
        for p, g in zip([*points, *sampled], [*of_points, *grads], strict=True):
            p.grad = g
        self._recorded = dict(zip(sampled, diagonal, strict=True))
        return loss

    def _captured(self, sample: Sample) -> Grads | None:
        recorded, self._recorded = self._recorded, None
        return super()._captured(sample) if recorded is None else recorded

    @torch.no_grad()
    def _step_from_values(self, closure: Closure) -> Any:
        self.eval()
        self._forget()
        drawn: list[tuple[Sample, float]] = []
        try:
            for _ in range(self.samples):
                with self._sampling("closure") as sample:
                    value = closure()
                if value is None:  # how a trainer says that it leaves this batch out
                    return self._skip()
                drawn.append((sample, _number(value)))
        finally:
            self._forget()
        g = {p: torch.zeros_like(p) for _, p in self._sampled()}
        h = {p: torch.zeros_like(p) for _, p in self._sampled()}
        for sample, value in drawn:
            others = [v for s, v in drawn if s.seed != sample.seed]
            centred = value - sum(others) / len(others) if others else value
            noise = self._noise(sample)
            for group, p in self._sampled():
                precision, eps = self._sampling_precision(group, p), noise[p]
                g[p] += curvatures.score_gradient(centred, eps, precision) / len(drawn)
                h[p] += curvatures.score_curvature(centred, eps, precision) / len(drawn)
        self._update(g, h)
        return sum(value for _, value in drawn) / len(drawn)

    def _apply(self, g: Grads, h: Grads, last: Sample | None) -> None:
        """With the largest β, as a fraction of what was asked for, that keeps every precision positive."""
        self._shortened = 1.0
        for group, p in self._sampled():
            if p in g:
                _, _, tempered, rates = self._letters(group)
                s, beta = self._state(group, p, p).s, rates["beta"]
                if beta > 0 and s.numel():
                    curvature = whole(h[p]).to(s.dtype)  # one β for all shards
                    feasible = rules.von.feasible_beta(whole(s), curvature, beta=beta, delta=self.backtrack, **tempered)
                    self._shortened = min(self._shortened, float(feasible) / beta)
        super()._apply(g, h, last)
        self._shortened = 1.0


def _number(value: Any) -> float:
    """The objective at a sample."""
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, (Tensor, bool, str)) or not hasattr(value, "__float__"):
        raise TypeError(
            f"with curvature='score' the closure returns the objective as one number, not a {type(value).__name__}"
        )
    return float(value)
