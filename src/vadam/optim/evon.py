"""EVON: IVON in the eigenbasis of each weight matrix, for a posterior with correlations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from torch import nn

from vadam import rules
from vadam.backends.shards import is_sharded
from vadam.gaussian import MeanFieldGaussian, RotatedGaussian
from vadam.interrupts import without_grad
from vadam.optim.common_arguments import CommonArguments
from vadam.optim.reparameterised import Reparameterised
from vadam.optim.rule_optimizer import Group
from vadam.optim.signature import group_arguments
from vadam.optim.snapshot import mean_of, prior_of, refuse_frozen, shares_of, temperature_of, unique_names


class EVON(Reparameterised):
    r"""Variational Online Newton in an eigenbasis ("SOAP-Bubbles", 2026): a posterior with correlations between the weights of a matrix.

    Input: α (``lr``), β₁, β₂ (``betas``), N (``num_data``), λ (``prior_precision``), s₀ (``hess_init``), ξ (``clip_radius``),
    β (``basis_beta``), k (``basis_every``)

    .. code-block:: text

        θ ← μ + Q_L (σ∘ε) Q_Rᵀ,  σ = 1/√(N s + λ)               each weight as a matrix; X' = Q_Lᵀ X Q_R
        ĝ ← minibatch gradient of f at θ,  ĥ ← ĝ'∘ε/σ
        m ← β₁ m + (1 − β₁) ĝ
        s₊ ← β₂ s + (1 − β₂) ĥ + ½ (1 − β₂)² (s − ĥ)²/(s + λ/N)
        μ ← μ − α Q_L clip((m/(1 − β₁ᵗ) + λ/N μ)'/(s₊ + λ/N), ±ξ) Q_Rᵀ
        L ← β L + (1 − β) ĝĝᵀ,  R ← β R + (1 − β) ĝᵀĝ
        every k steps  Q_L ← qr(L Q_L),  Q_R ← qr(R Q_R),  s along the new axes

    Convolutions are matrices [out, in · kernel]. Vectors, and sides longer than ``max_side``, keep their own axes: there EVON is
    :class:`vadam.IVON`, whose arguments are also these. The posterior is a :class:`vadam.RotatedGaussian`. The prior is isotropic:
    ``prior`` is a number or "init".
    """

    rule = rules.evon

    @group_arguments
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.1,
        betas: tuple[float, float] = (0.9, 0.99999),
        *,
        num_data: float,
        prior_precision: float = 1.0,
        hess_init: float = 1.0,
        clip_radius: float = 0.01,
        rescale_lr: bool = True,
        basis_beta: float = 0.999,
        basis_every: int = 10,
        max_side: int = 1024,
        **common: Unpack[CommonArguments],
    ) -> None: ...

    def _check(self, group: Group) -> None:
        if isinstance(group["prior"], MeanFieldGaussian) or group["prior"] == "posterior":
            raise ValueError(
                "prior: EVON's axes turn with the gradients, so its prior has one precision for all weights of a group: give a number "
                'or "init" with prior_precision, or use IVON, which takes a posterior'
            )
        super()._check(group)
        for name in ("basis_every", "max_side"):
            if group[name] != int(group[name]):
                raise ValueError(f"{name} must be a whole number, got {group[name]!r}")

    def add_param_group(self, param_group: Group) -> None:
        """Add a group; every weight matrix must be whole."""
        super().add_param_group(param_group)
        if any(is_sharded(p) for p in self.param_groups[-1]["params"]):
            self.param_groups.pop()
            raise ValueError(
                "EVON rotates whole weight matrices, and FSDP2 shards them: use DistributedDataParallel, or IVON, which is sharded"
            )

    @without_grad
    def posterior(self, model: nn.Module | None = None) -> RotatedGaussian:  # type: ignore[override]
        """Return a snapshot of q: mean, precision along the axes of each weight matrix, and the axes."""
        refuse_frozen(self)
        self._settle()
        name, sampled = unique_names(self, model), dict.fromkeys(self._sampled())
        precision = {name[p]: own.clone() for p, own in self._precisions(sampled)}
        prior_precision, prior_mean = prior_of(self, name)
        return RotatedGaussian(
            {name[p]: mean_of(self, p) for p in sampled},
            precision,
            left={name[p]: self.state[p]["QL"] for p in sampled if self.state[p]["QL"].numel()},
            right={name[p]: self.state[p]["QR"] for p in sampled if self.state[p]["QR"].numel()},
            point={name[p]: mean_of(self, p) for _, p in self._grouped() if p not in sampled},
            prior_precision=prior_precision,
            prior_mean=prior_mean,
            shares=shares_of(self, name, precision),
            temperature=temperature_of(self, name),
        )
