"""VadamGGN with the powers of ``literal_vadam``: the mean of squared per-example gradients in place of ĝ∘ĝ.

``w`` is Theorem 1's factor. s averages w ĥ, so that steps are as long as Adam's, and the precision counts s/w.
"""

from torch import Tensor

from vadam.rules import vadam, vadam_ggn
from vadam.rules.vadam_ggn import precision
from vadam.rules.von import Scalar
from vadam_paper.experiments.logreg.literal_vadam import State, init

__all__ = ["State", "init", "precision", "update"]


def update(state: State, g: Tensor, h: Tensor, *, gamma1: Scalar, gamma2: Scalar, **rule_args: Scalar) -> State:
    mu, m, s, s0, t = state
    powers = vadam.State(mu, m, s, s0, gamma1**t, gamma2**t)
    return State(*vadam_ggn.update(powers, g, h, gamma1=gamma1, gamma2=gamma2, **rule_args)[:4], t + 1)
