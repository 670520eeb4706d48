"""IVON: the improved variational online Newton method, successor of VON and Vadam."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from vadam import rules
from vadam.optim import checks
from vadam.optim.base import Group
from vadam.optim.common import Common
from vadam.optim.reparameterised import Reparameterised
from vadam.optim.ruled import Letters


class IVON(Reparameterised):
    r"""Improved Variational Online Newton (Shen et al., ICML 2024).

    Input: α (``lr``), β₁, β₂ (``betas``), N (``num_data``), λ (``prior_precision``), s₀ (``hess_init``), ξ (``clip_radius``)

    .. code-block:: text

        θ ← μ + σ∘ε,  σ = 1/√(N s + λ)
        ĝ ← minibatch gradient of f at θ,  ĥ ← ĝ∘ε/σ
        m ← β₁ m + (1 − β₁) ĝ
        s₊ ← β₂ s + (1 − β₂) ĥ + ½ (1 − β₂)² (s − ĥ)²/(s + λ/N)
        μ ← μ − α clip((m/(1 − β₁ᵗ) + λ/N μ)/(s₊ + λ/N), ±ξ)

    In IVON's own words N is ``ess`` and λ is ``ess * weight_decay``. With ``rescale_lr`` the rate is α (s₀ + λ/N), so that the first
    steps are those of SGD with rate α. A deterministic group is trained by Adam: give it a learning rate of its own, as this one's
    default is far too large for Adam. The other arguments are those of :class:`vadam.Vadam`.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.1,
        betas: tuple[float, float] = (0.9, 0.99999),
        *,
        num_data: float,
        prior_precision: float = 1.0,
        hess_init: float = 1.0,
        clip_radius: float = float("inf"),
        rescale_lr: bool = True,
        **common: Unpack[Common],
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "num_data": num_data,
            "prior_precision": prior_precision,
            "hess_init": hess_init,
            "clip_radius": clip_radius,
            "rescale_lr": rescale_lr,
        }
        super().__init__(params, defaults, **common)

    def _check(self, group: Group) -> None:
        checks.learning_rate(group)
        checks.betas(group)
        checks.num_data(group)
        checks.prior(group)
        checks.number(
            "hess_init",
            group["hess_init"],
            low=0,
            fix="the Hessian starts with this value: above 0, e.g. hess_init=0.5",
        )
        checks.number(
            "clip_radius",
            group["clip_radius"],
            low=0,
            closed="]",
            fix="steps are clipped to ± this number: above 0, inf for no clipping",
        )

    def _letters(self, group: Group) -> Letters:
        N, lam = group["num_data"], group["prior_precision"]
        beta1, beta2 = group["betas"]
        alpha = group["lr"] * (group["hess_init"] + lam / N) if group["rescale_lr"] else group["lr"]
        scale = {"N": N, "lam": lam}
        return Letters(
            rules.ivon, scale, scale, {"alpha": alpha, "beta1": beta1, "beta2": beta2, "xi": group["clip_radius"]}
        )

    def _start(self, group: Group) -> float:
        return group["num_data"] * group["hess_init"] + group["prior_precision"]
