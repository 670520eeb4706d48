"""The optimizers of the estimators by name, with settings that suit standardised tables and small networks.

The rates are for a cosine decay. Vadam's settings are those of Table 1's protocol ``best``, where cross-validation has chosen them
(``vadam_paper.experiments.uci``). A rule that is not listed has its own defaults.
"""

from __future__ import annotations

from typing import Any

from vadam.ensemble import Method, rule_names

SETTINGS: dict[str, dict[str, Any]] = {
    "vadam": {"lr": 0.01, "init_precision": 1e4},
    "vprop": {"lr": 0.05, "beta": 0.99, "init_precision": "prior"},
    "vogn": {"lr": 0.1, "beta": 0.99, "init_precision": 1e3},
    "bbvi": {"lr": 0.05, "betas": (0.9, 0.99), "init_precision": 10.0},
    "ivon": {"lr": 0.1, "betas": (0.9, 0.999), "clip_radius": 0.3, "rescale_lr": False},
    "vadagrad": {"lr": 1.0, "init_precision": 1e3},
    "map": {"name": "adam", "lr": 0.02},
    "mc-dropout": {"name": "adam", "lr": 0.02, "drops_out": True},
}


def optimizer_names() -> list[str]:
    """Return the names of the optimizers: the rules with a posterior, "map" and "mc-dropout"."""
    return list(SETTINGS | {name: {} for name in rule_names() if Method(name, **SETTINGS.get(name, {})).has_posterior})


def method_of(optimizer: str | Method, samples: int) -> Method:
    """Return the method of that name; a method is returned as it is."""
    if isinstance(optimizer, Method):
        return optimizer
    if optimizer not in optimizer_names():
        names = ", ".join(map(repr, optimizer_names()))
        raise ValueError(f"optimizer={optimizer!r} is not valid: choose one of {names}, or a vadam.ensemble.Method")
    settings = {"name": optimizer, **SETTINGS.get(optimizer, {})}
    return Method(**settings, samples=samples)
