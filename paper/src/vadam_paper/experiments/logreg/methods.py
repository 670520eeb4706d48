"""The methods of Fig. 2b and 2c, as the authors' program runs them and as the text describes them."""

import math
from dataclasses import dataclass

from torch import Tensor

from vadam.rules import natural_momentum
from vadam.rules.arguments import theorem1_weight
from vadam_paper.experiments.logreg import literal_vadam, literal_vadam_ggn, matlab_vadam, matlab_vogn
from vadam_paper.experiments.logreg.engine import Method
from vadam_paper.experiments.logreg.rates import constant, decayed

GAMMA1 = 0.9
START_PRECISION = 1.0


@dataclass(frozen=True)
class Rates:
    """Initial values of α and 1 − β: decayed for Vadam, constant for VOGN-1."""

    vadam: float = 0.01
    vogn: float = 0.0005
    vogn_decayed: float = 0.2


def authors_vadam(rates: Rates, batch_size: int, steps: int) -> Method:
    """Return Vadam of the authors' program."""

    def at(t: Tensor) -> dict[str, Tensor]:
        return {"alpha": decayed(rates.vadam, t), "beta": decayed(rates.vadam, t)}

    return Method(matlab_vadam, "magnitude", at, batch_size, steps, START_PRECISION)


def authors_vadam_with_ggn(rates: Rates, batch_size: int, steps: int) -> Method:
    """Return Vadam of the authors' program with squared per-example gradients as curvature.

    They are about M times as large as the squared minibatch gradient (Theorem 1), so α is multiplied by √M: the steps keep
    their length.
    """

    def at(t: Tensor) -> dict[str, Tensor]:
        return {"alpha": decayed(rates.vadam * math.sqrt(batch_size), t), "beta": decayed(rates.vadam, t)}

    return Method(matlab_vadam, "ggn", at, batch_size, steps, START_PRECISION)


def authors_vogn(rates: Rates, batch_size: int, steps: int) -> Method:
    """Return VOGN-1 of the authors' program."""

    def at(t: Tensor) -> dict[str, Tensor]:
        return {"alpha": constant(rates.vogn, t), "beta": constant(rates.vogn, t)}

    return Method(matlab_vogn, "ggn", at, batch_size, steps, START_PRECISION)


def authors_vogn_with_decay(rates: Rates, batch_size: int, steps: int) -> Method:
    """Return VOGN-1 with the curvature average and decaying steps of Vadam, to isolate the difference.

    VOGN divides by the curvature, not by its square root, so its steps need a larger factor.
    """

    def at(t: Tensor) -> dict[str, Tensor]:
        return {"alpha": decayed(rates.vogn_decayed, t), "beta": decayed(rates.vadam, t)}

    return Method(matlab_vogn, "ggn", at, batch_size, steps, START_PRECISION)


def text_vadam(rates: Rates, batch_size: int, steps: int) -> Method:
    """Return Fig. 1 with γ₂ = β_t; the text gives no γ₁ for these data."""
    return _fig1(rates.vadam, rates, batch_size, steps)


def text_vadam_with_larger_steps(rates: Rates, batch_size: int, steps: int, num_data: int) -> Method:
    """Return Fig. 1 with α₀ √N, the step length of the authors' program."""
    return _fig1(rates.vadam * math.sqrt(num_data), rates, batch_size, steps)


def vadam_with_batch_size(batch_size: int, steps: int, num_data: int) -> Method:
    """Return Fig. 1 with ``batch_size=M``: the precision counts s/w (Theorem 1), the steps are Fig. 1's.

    It is the library's Vadam at Adam's γ = (0.9, 0.999), with a decaying α and minibatches without replacement, as Theorem 1 has them.
    """

    def at(t: Tensor) -> dict[str, Tensor]:
        return {"alpha": decayed(1.0, t), "gamma1": constant(GAMMA1, t), "gamma2": constant(0.999, t)}

    return Method(
        literal_vadam, "magnitude", at, batch_size, steps, w=theorem1_weight(batch_size, num_data), shuffled=True
    )


def vadam_ggn(batch_size: int, steps: int, num_data: int) -> Method:
    """Return the library's VadamGGN with ``batch_size=M``, at the rates of ``vadam_with_batch_size``."""
    w = theorem1_weight(batch_size, num_data)

    def at(t: Tensor) -> dict[str, Tensor]:
        rates = {"alpha": decayed(1.0, t), "gamma1": constant(GAMMA1, t), "gamma2": constant(0.999, t)}
        return {**rates, "w": constant(w, t)}

    return Method(literal_vadam_ggn, "ggn", at, batch_size, steps, w=w, shuffled=True)


def _fig1(alpha0: float, rates: Rates, batch_size: int, steps: int) -> Method:
    def at(t: Tensor) -> dict[str, Tensor]:
        return {"alpha": decayed(alpha0, t), "gamma1": constant(GAMMA1, t), "gamma2": 1 - decayed(rates.vadam, t)}

    return Method(literal_vadam, "magnitude", at, batch_size, steps)


def text_vogn(rates: Rates, batch_size: int, steps: int) -> Method:
    """Return VOGN with the natural momentum of §4, at Adam's rates in the heavy-ball form."""

    def at(t: Tensor) -> dict[str, Tensor]:
        return {
            "alpha": constant(rates.vogn, t) * (1 - GAMMA1) / (1 - GAMMA1**t),
            "beta": constant(rates.vogn, t),
            "gamma": GAMMA1 * (1 - GAMMA1 ** (t - 1)) / (1 - GAMMA1**t),
        }

    return Method(natural_momentum, "ggn", at, batch_size, steps)
