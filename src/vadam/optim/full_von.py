"""FullVON: variational online Newton with a full covariance, for small models."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from vadam import curvature, rules
from vadam.gaussian import FullGaussian
from vadam.optim import checks
from vadam.optim.base import Closure, Group, VariationalOptimizer
from vadam.optim.common import Common
from vadam.optim.estimate import Grads
from vadam.optim.ruled import Letters
from vadam.optim.sample import Sample
from vadam.optim.snapshot import names


class FullVON(VariationalOptimizer):
    r"""Variational Online Newton with a full covariance (paper App. D) over all weights, laid end to end.

    Input: α (``lr``), 1 − β (``beta``, the weight of the old), N (``num_data``), λ (``prior_precision``)

    .. code-block:: text

        θ ~ N(μ, Σ),  Σ⁻¹ = N S + λ I
        ĝ, Ĥ ← minibatch gradient and Hessian of f at θ
        S₊ ← (1 − β) S + β Ĥ
        μ ← μ − α (S₊ + λ/N I)⁻¹ (ĝ + λ/N μ)

    The closure returns the loss and does not call ``backward()``. The state has D² numbers: more than ``limit`` weights are
    refused. All groups share ``lr``, ``beta`` and ``num_data``; the prior precision may differ. The other arguments are those of
    :class:`vadam.Vadam`.
    """

    has_loop = False
    _recorded: Grads | None = None

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-1,
        beta: float = 0.9,
        *,
        num_data: float,
        prior_precision: float = 1.0,
        init_precision: float | None = None,
        limit: int = 2000,
        **common: Unpack[Common],
    ) -> None:
        checks.whole("limit", limit, low=1, fix="the largest number of weights is a whole number from 1")
        self.limit = limit
        defaults = {
            "lr": lr,
            "beta": beta,
            "num_data": num_data,
            "prior_precision": prior_precision,
            "init_precision": init_precision,
        }
        super().__init__(params, defaults, **common)

    def add_param_group(self, param_group: Group) -> None:
        super().add_param_group(param_group)
        sampled = [p for _, p in self._sampled()]
        weights = sum(p.numel() for p in sampled)
        problem = ""
        if weights > self.limit:
            problem = (
                f"FullVON keeps a matrix of {weights} × {weights} numbers, more than limit={self.limit!r} allows: use VON or VOGN, "
                f"freeze part of the model, or raise the limit"
            )
        elif len({(p.dtype, p.device) for p in sampled}) > 1 or any(p.dtype.itemsize < 4 for p in sampled):
            problem = (
                "FullVON treats all weights as one vector: they must share a device and a dtype, float32 or float64"
            )
        if problem:
            self.param_groups.pop()
            raise ValueError(problem)

    def _check(self, group: Group) -> None:
        checks.learning_rate(group)
        checks.beta(group)
        checks.num_data(group)
        checks.prior(group)
        checks.init_precision(group)
        for shared in ("lr", "beta", "num_data"):
            if self.param_groups and group[shared] != self.param_groups[0][shared]:
                raise ValueError(
                    f"{shared}={group[shared]!r} differs between groups: FullVON treats all weights as one vector"
                )

    def _letters(self, group: Group) -> Letters:
        scale = {"N": group["num_data"], "lam": group["prior_precision"]}
        return Letters(rules.full_von, scale, scale, {"alpha": group["lr"], "beta": 1 - group["beta"]})

    def step(self, closure: Closure | None = None) -> Any:
        if closure is None:
            raise RuntimeError(
                "FullVON needs step(closure): it differentiates the loss twice, so it must evaluate it itself"
            )
        return super().step(closure)

    def _evaluate(self, closure: Closure) -> Any:
        loss = closure()
        if not isinstance(loss, Tensor) or not loss.requires_grad:
            raise TypeError("FullVON's closure returns the loss as a tensor and does not call backward()")
        sampled = [p for _, p in self._sampled()]
        points = [p for p in self._trained() if all(p is not q for q in sampled)]
        gradients = torch.autograd.grad(loss, points, retain_graph=True, allow_unused=True) if points else ()
        grads, hessian = curvature.hessian(loss, sampled, limit=self.limit)
        for p, g in [*zip(points, gradients, strict=True), *zip(sampled, grads, strict=True)]:
            p.grad = g
        self._recorded = {sampled[0]: hessian}
        return loss

    def _captured(self, sample: Sample) -> Grads | None:
        recorded, self._recorded = self._recorded, None
        return recorded

    def _curvatures(self, sample: Sample, grads: Grads) -> Grads:
        return super()._curvatures(sample, {p: g for p, g in grads.items() if all(p is not q for q in sample.params)})

    # All sampled weights as one vector ---------------------------------------------------------------------------------------

    def _flat(self) -> tuple[Group, list[Tensor], Any, dict[str, Any]]:
        sampled = list(self._sampled())
        params = [p for _, p in sampled]
        if not sampled:
            raise RuntimeError("FullVON has no weights to sample: all of them are frozen or deterministic")
        group, first = sampled[0]
        lam = torch.cat([torch.full_like(p, g["prior_precision"]).flatten() for g, p in sampled])
        mu = torch.cat([p.detach().flatten() for p in params])
        scale = {"N": group["num_data"], "lam": lam}
        if "S" not in self.state[first]:
            start = torch.cat([torch.full_like(p, g["init_precision"]).flatten() for g, p in sampled])
            self.state[first]["S"] = rules.full_von.init(mu, init_precision=start, **scale).S
        S = self.state[first]["S"]
        if len(S) != len(mu):
            raise RuntimeError(
                f"FullVON has learned the covariance of {len(S)} weights, but now there are {len(mu)}: its weights cannot be frozen or "
                f"added to in the middle of training. Build a new optimizer"
            )
        return group, params, rules.full_von.State(mu, S), scale

    def _perturb(self, sample: Sample) -> None:
        """θ = μ + L⁻ᵀ ε, where L Lᵀ is the precision."""
        _, params, state, scale = self._flat()
        factor, failed = torch.linalg.cholesky_ex(rules.full_von.precision(state, **scale))
        if failed:
            raise FloatingPointError(
                "the precision is no longer positive definite: the loss has negative curvature here. Raise beta (slower curvature) "
                "or prior_precision, or use VOGN, whose curvature is never negative"
            )
        noise = self._noise(sample)
        eps = torch.cat([noise[p].flatten() for p in params])
        deviation = torch.linalg.solve_triangular(factor.mT, eps.unsqueeze(1), upper=True).squeeze(1)
        of = dict(zip(params, _split(deviation, params), strict=True))

        def shift(i: int, theta: Tensor, sign: float) -> None:
            piece = sample.pieces[i]
            theta.add_(piece.vector([of[p] for p in piece.params]), alpha=sign)

        sample.perturb(shift)

    def _update(self, g: Grads, h: Grads) -> None:
        first = next(p for _, p in self._sampled())
        self._hessian = h.pop(first)
        bent = all(map(math.isfinite, self._norms(g)[0].values())) and not self._hessian.isfinite().all()
        if bent and self.nonfinite == "skip":
            self._skip()
        elif bent:
            raise FloatingPointError("the Hessian is not finite. The step was refused, nothing has changed")
        else:
            super()._update(g, {p: h.get(p, g[p]) for p in g})

    def _apply(self, g: Grads, h: Grads, last: Sample | None) -> None:
        if last is not None:
            last.restore()
        group, params, state, scale = self._flat()
        rates = self._letters(group).rates
        flat = torch.cat([g[p].flatten() if p in g else torch.zeros_like(p).flatten() for p in params])
        new = rules.full_von.update(state, flat, self._hessian, **scale, **rates)
        state.S.copy_(new.S)
        for p, mu in zip(params, _split(new.mu, params), strict=True):
            p.copy_(mu)
        super()._apply({p: x for p, x in g.items() if all(p is not q for q in params)}, h, last)

    @torch.no_grad()
    def posterior(self, model: nn.Module | None = None) -> FullGaussian:  # type: ignore[override]
        """A snapshot of q = N(mean, precision⁻¹) over all weights, laid end to end in the order of the parameters."""
        name = names(self, model)
        _, params, state, scale = self._flat()
        return FullGaussian(
            state.mu.clone(),
            rules.full_von.precision(state, **scale),
            {name[id(p)]: p.shape for p in params},
            point={name[id(p)]: p.detach().clone() for p in self._all() if all(p is not q for q in params)},
            prior_precision={name[id(p)]: g["prior_precision"] for g, p in self._sampled()},
        )

    def _check_same_kind(self, state_dict: dict[str, Any]) -> None:
        shapes = [set(state) for state in state_dict["state"].values()]
        if any(keys not in ({"S"}, {"m", "s", "s0", "gamma1_t", "gamma2_t"}) for keys in shapes):
            raise ValueError("this checkpoint is not of a FullVON")


def _split(vector: Tensor, params: list[Tensor]) -> list[Tensor]:
    return [x.view_as(p) for x, p in zip(vector.split([p.numel() for p in params]), params, strict=True)]
