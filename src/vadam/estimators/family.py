"""The optimizers by name, with settings that suit standardised tables and small networks: rates for a cosine decay.

Vadam's are those of Table 1's protocol ``best``, where cross-validation has chosen them (``vadam_paper.experiments.uci``).
"""

from __future__ import annotations

from collections.abc import Callable

from vadam.ensemble import BBVI, IVON, MAP, VOGN, MCDropout, Method, VadaGrad, Vadam, Vprop

FAMILY: dict[str, Callable[[int], Method]] = {
    "vadam": lambda samples: Vadam(lr=0.01, betas=(0.9, 0.999), samples=samples, init_precision=1e4),
    "vprop": lambda samples: Vprop(lr=0.05, beta=0.99, samples=samples),
    "vogn": lambda samples: VOGN(lr=0.1, beta=0.99, samples=samples, init_precision=1e3),
    "bbvi": lambda samples: BBVI(lr=0.05, betas=(0.9, 0.99), samples=samples, init_precision=10.0),
    "ivon": lambda samples: IVON(lr=0.1, betas=(0.9, 0.999), samples=samples, clip_radius=0.3, rescale_lr=False),
    "vadagrad": lambda samples: VadaGrad(lr=1.0, samples=samples, init_precision=1e3),
    "map": lambda samples: MAP(lr=0.02),
    "mc-dropout": lambda samples: MCDropout(lr=0.02),
}


def method_of(optimizer: str | Method, samples: int) -> Method:
    """The method of that name; one from ``vadam.ensemble`` is taken as it is."""
    if not isinstance(optimizer, str):
        return optimizer
    if optimizer not in FAMILY:
        names = ", ".join(map(repr, FAMILY))
        raise ValueError(f"optimizer={optimizer!r} is not valid: choose one of {names}, or a method of vadam.ensemble")
    return FAMILY[optimizer](samples)
