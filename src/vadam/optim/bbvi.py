"""BBVI: black-box variational inference with the reparameterisation trick and Adam, the paper's baseline."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from vadam import rules
from vadam.optim import checks
from vadam.optim.base import Group
from vadam.optim.common import Common
from vadam.optim.reparameterised import Reparameterised
from vadam.optim.ruled import Letters


class BBVI(Reparameterised):
    r"""Black-box variational inference (paper §2): Adam on the mean μ and on ρ, where σ = log(1 + e^ρ).

    Input: α (``lr``), γ₁, γ₂ (``betas``), δ (``eps``), N (``num_data``), λ (``prior_precision``)

    .. code-block:: text

        θ ← μ + σ∘ε
        ĝ ← minibatch gradient of f at θ
        μ ← Adam step along ĝ + λ/N μ
        ρ ← Adam step along (ĝ∘ε + (λσ − 1/σ)/N) / (1 + e^−ρ)

    It needs no stochastic layers: the gradient with respect to σ is ĝ∘ε. The state is five vectors. ``init_precision`` may be below
    the prior's. The other arguments are those of :class:`vadam.Vadam`.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        *,
        num_data: float,
        prior_precision: float = 1.0,
        init_precision: float | None = None,
        **common: Unpack[Common],
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "num_data": num_data,
            "prior_precision": prior_precision,
            "init_precision": init_precision,
        }
        super().__init__(params, defaults, **common)

    def _check(self, group: Group) -> None:
        checks.learning_rate(group)
        checks.betas(group)
        checks.number("eps", group["eps"], low=0, closed="[", fix="Adam's constant must be at least 0, e.g. eps=1e-8")
        checks.num_data(group)
        checks.prior(group)
        if group["init_precision"] is None:
            group["init_precision"] = group["prior_precision"]
        checks.number(
            "init_precision", group["init_precision"], low=0, fix="q starts with this precision: above 0, e.g. 10.0"
        )

    def _letters(self, group: Group) -> Letters:
        gamma1, gamma2 = group["betas"]
        scale = {"N": group["num_data"], "lam": group["prior_precision"]}
        return Letters(
            rules.bbvi, scale, scale, {"alpha": group["lr"], "gamma1": gamma1, "gamma2": gamma2, "eps": group["eps"]}
        )
