"""The five methods with the authors' settings, and the space that is searched for each."""

import math
from typing import Any

from vadam.ensemble import MLP, Method, cosine
from vadam.tuning import Space
from vadam_paper import data
from vadam_paper.experiments.uci.config import LARGE, Best, Config, Corrected, data_set, splits

PRINTED = "-printed"
"""Suffix of a method with γ₁ and γ₂ as App. J prints them: 0.99 and 0.9."""
NARROW = ("power", "naval")
"""Sets that the authors' program searches within narrower bounds."""
LENGTH_SCALE = 0.01
"""Length-scale of MC-Dropout's prior; its square acts as the prior precision."""
DROPOUT_RATES = (0.001, 0.3)
"""Bounds of the rate under *best*; Gal's grid goes from 0.005 to 0.1."""
VOGN_RATES = (0.003, 0.3)
"""Bounds of VOGN's learning rate, which is searched: the paper gives none, and a Newton step has another scale."""
ROWS_A_STACK = 6400
"""Networks times samples times minibatch size that fit the cache with 50 hidden units per row."""


def setting(config: Config, method: str, name: str) -> dict[str, Any]:
    """Return the common arguments of ``train`` and ``tune``.

    All stacks have one size, so that the step is compiled once.
    """
    name = data_set(name)
    chosen = _method(config, method, name)
    fitting = max(1, ROWS_A_STACK // (chosen.samples * batch_size(name)))
    found: dict[str, Any] = {
        "network": MLP(data.registry.find(name).d, config.hidden, 1),
        "method": chosen,
        "epochs": epochs(config, name),
        "batch_size": batch_size(name),
        "evaluation_samples": config.evaluation_samples,
        "chunk": _divisor(splits(config, name, method) * config.folds, fitting),
    }
    return found | {"schedule": cosine} if isinstance(config, Best) else found


def batch_size(name: str) -> int:
    return 128 if data_set(name) in LARGE else 32


def epochs(config: Config, name: str) -> int:
    return config.epochs_large if isinstance(config, Best) and name in LARGE else config.epochs


def space(config: Config, method: str, name: str) -> Space:
    """Return the search space; precisions are for targets scaled to variance 1."""
    if isinstance(config, Best):
        own: Space = {"temperature": _powers_of_e(-5, 0)} if method == "vadam" else {"dropout": DROPOUT_RATES}
        own = {} if isinstance(config, Corrected) else own
        return {**own, "prior_precision": _powers_of_e(-7, 4), "noise_precision": _powers_of_e(0, 9)}
    noise = _powers_of_e(1, 5) if name in NARROW else _powers_of_e(0, 5)
    if method == "mc-dropout":
        return {"dropout": (0.005, 0.1), "noise_precision": noise}
    prior = _powers_of_e(-3, 4) if name in NARROW else _powers_of_e(-4, 4)
    both = {"prior_precision": prior, "noise_precision": noise}
    return both | {"lr": VOGN_RATES} if method == "vogn" else both


def robust(config: Config, method: str) -> bool:
    """Return True if the search clips very bad values.

    The authors' search does not. Those of VOGN and *best* are ours.
    """
    return isinstance(config, Best) or method == "vogn"


def objective(config: Config, method: str) -> str:
    """Return the metric that the search maximises.

    MC-Dropout uses the pointwise log-likelihood: with one mask per example there is no joint sample.
    """
    return "log_likelihood" if method == "mc-dropout" else config.objective


def _method(config: Config, method: str, name: str) -> Method:
    lr, betas, beta = config.lr, config.betas, config.betas[1]
    if isinstance(config, Best) and method == "mc-dropout":
        return Method("adam", lr=lr, betas=betas, drops_out=True)
    if isinstance(config, Best):
        M = batch_size(name) if isinstance(config, Corrected) else None
        return Method("vadam", lr=lr, betas=betas, init_precision=config.init_precision, batch_size=M)
    S = 5 if name in LARGE else 10
    match method:
        case "vadam":
            return Method("vadam", lr=lr, betas=betas, samples=S, init_precision="prior")
        case "vadam-printed":
            return Method("vadam", lr=lr, betas=betas[::-1], samples=S, init_precision="prior")
        case "bbvi":
            return Method("bbvi", lr=lr, betas=betas, samples=2 * S, init_precision=10.0)
        case "vogn":
            return Method("vogn", lr=lr, beta=beta, samples=S, init_precision="prior")
        case "vprop":
            return Method("vprop", lr=lr, beta=beta, samples=S, init_precision="prior")
        case "mc-dropout":
            return Method("adam", lr=lr, betas=betas, drops_out=True)
    raise ValueError(f"unknown method {method!r}: choose one of {', '.join(config.methods)}")


def _divisor(number: int, most: int) -> int:
    """Return the largest divisor up to ``most``."""
    return next(size for size in range(min(number, most), 0, -1) if number % size == 0)


def _powers_of_e(low: float, high: float) -> tuple[float, float]:
    return math.exp(low), math.exp(high)
