"""IVON: the improved variational online Newton method, successor of VON and Vadam."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from vadam import rules
from vadam.optim.common_arguments import CommonArguments
from vadam.optim.reparameterised import Reparameterised
from vadam.optim.signature import group_arguments


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

    rule = rules.ivon

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
        **common: Unpack[CommonArguments],
    ) -> None: ...
