"""FullVON: variational online Newton with a full covariance, for small models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from vadam import curvature, rules
from vadam.backends.bucket import Bucket, Grads
from vadam.gaussian import FullGaussian
from vadam.interrupts import without_grad
from vadam.optim import checks
from vadam.optim.common_arguments import CommonArguments
from vadam.optim.rule_optimizer import Group
from vadam.optim.sample import Owner, Sample
from vadam.optim.second_order import SecondOrder
from vadam.optim.signature import group_arguments
from vadam.optim.snapshot import mean_of, prior_of, temperature_of, unique_names


class FullVON(SecondOrder):
    r"""Variational Online Newton with a full covariance (paper App. D) over all weights, laid end to end, with natural momentum (App. E.4).

    Input: α (``lr``), 1 − β (``beta``), γ̄ (``momentum``), N (``num_data``), λ (``prior_precision``), τ (``tau``)

    .. code-block:: text

        θ ~ N(μ, Σ),  Σ⁻¹ = N S + τλ I
        ĝ, Ĥ ← minibatch gradient and Hessian of f at θ
        S₊ ← (1 − τβ) S + β Ĥ,  A = S + τλ/N I
        μ ← μ − α A₊⁻¹ (ĝ + τλ/N μ) + γ̄ A₊⁻¹ A (μ − μ₋)

    The closure returns the loss and does not call ``backward()``. The state has D² numbers: more than ``limit`` weights are
    refused. All groups share ``lr``, ``beta``, ``momentum``, ``tau`` and what is said of the data; the prior may differ.
    ``tau=0`` is full-matrix VAN, variational optimisation. The other arguments are those of :class:`vadam.Vadam`.
    """

    rule = rules.full_von
    has_loop = False

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
        momentum: float = 0.0,
        tau: float = 1.0,
        limit: int = 2000,
        **common: Unpack[CommonArguments],
    ) -> None:
        checks.whole("limit", limit, low=1)
        self.limit = limit

    def add_param_group(self, param_group: Group) -> None:
        """Add a group; all weights must share a device and a dtype and stay within the limit."""
        super().add_param_group(param_group)
        sampled = self._sampled()
        weights = sum(p.numel() for p in sampled)
        problem = ""
        if weights > self.limit:
            problem = (
                f"FullVON keeps a matrix of {weights} × {weights} numbers, more than limit={self.limit!r} allows: use VON or VOGN, "
                f"freeze part of the model, or raise the limit"
            )
        elif len({(p.dtype, p.device) for p in sampled}) > 1 or any(p.dtype.itemsize < 4 for p in sampled):
            problem = "FullVON sees all weights as one vector: they must share a device and a dtype, float32 or float64"
        if problem:
            self.param_groups.pop()
            raise ValueError(problem)

    def _check(self, group: Group) -> None:
        super()._check(group)
        for shared in ("lr", "beta", "momentum", "tau", "num_data", "data_weight", "temperature"):
            if self.param_groups and group[shared] != self.param_groups[0][shared]:
                raise ValueError(
                    f"{shared} must be the same in all groups of FullVON, got {group[shared]!r} in another"
                )

    def _bucket(self) -> Bucket:
        """Return all sampled weights as one bucket."""
        buckets = self._buckets(self._sampled())
        if not buckets:
            raise RuntimeError("FullVON has no weights to sample: all of them are frozen or deterministic")
        (bucket,) = buckets
        if len(bucket.states[0]["S"]) != bucket.size:
            raise RuntimeError(
                f"FullVON has learned the covariance of {len(bucket.states[0]['S'])} weights, but now there are {bucket.size}: its "
                f"weights cannot be frozen or added to in the middle of training. Build a new optimizer"
            )
        return bucket

    def _refuse_unsound_precisions(self) -> None:
        """Raise also if the loaded covariance is that of another number of weights."""
        super()._refuse_unsound_precisions()
        if any("S" in self.state.get(p, ()) for p in self._sampled()):
            self._bucket()

    def _open_sample(self, owner: Owner) -> Sample:
        self._bucket()
        sample = super()._open_sample(owner)
        if sample.params[0].is_cpu and not bool(sample.params[0].isfinite().all()):
            self._drop_sample()
            raise FloatingPointError(
                "the precision is no longer positive definite: the loss has negative curvature here. Raise beta (slower curvature) "
                "or prior_precision, or use VOGN, whose curvature is never negative"
            )
        return sample

    def _differentiate(self, loss: Tensor, params: list[Tensor]) -> tuple[Sequence[Tensor], Grads]:
        sampled = self._sampled()
        grads, hessian = curvature.hessian(loss, sampled, limit=self.limit)
        kept = dict(zip(sampled, grads, strict=True))
        return [kept[p] for p in params], {sampled[0]: hessian}

    def _curvatures(self, sample: Sample, grads: Grads) -> Grads:
        return super()._curvatures(sample, {p: g for p, g in grads.items() if p not in set(sample.params)})

    def _apply(self, g: Grads, h: Grads, scale: Grads | None, accept: Tensor | None) -> None:
        """Apply the rule to all weights; those that the loss does not touch keep their mean."""
        untouched = {p: mean_of(self, p) for p in self._sampled() if p not in g}
        zeros = {p: torch.zeros_like(p) for p in untouched}
        super()._apply({**g, **zeros}, h, None, accept)
        for p, mean in untouched.items():
            p.copy_(mean)

    def _variances(self, group: Group) -> Iterator[tuple[Tensor, Tensor]]:
        bucket = self._bucket()
        covariance = torch.linalg.inv(self._backend.precision(bucket))
        variances = dict(zip(bucket.params, bucket.split(covariance.diagonal()), strict=True))
        return ((p, variances[p]) for p in group["params"] if p in variances)

    @without_grad
    def posterior(self, model: nn.Module | None = None) -> FullGaussian:  # type: ignore[override]
        """Return a snapshot of q = N(mean, precision⁻¹) over all weights, laid end to end in the order of the parameters."""
        name, bucket = unique_names(self, model), self._bucket()
        prior_precision, prior_mean = prior_of(self, name)
        sampled = dict.fromkeys(bucket.params)
        mean = torch.cat([mean_of(self, p).flatten() for p in sampled])
        return FullGaussian(
            mean,
            self._backend.precision(bucket),
            {name[p]: p.shape for p in bucket.params},
            point={name[p]: mean_of(self, p) for _, p in self._grouped() if p not in sampled},
            prior_precision=prior_precision,
            prior_mean=prior_mean,
            temperature=temperature_of(self, name),
        )
