"""Check the arguments that do not belong to a rule; an error gives the name, the value and the fix."""

import operator
import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

import torch

from vadam import backends
from vadam.backends.shards import is_tensor_parallel


def common(
    optimizer: str,
    samples: Any,
    antithetic: Any,
    generator: Any,
    nonfinite: Any,
    backend: Any,
    store_mean: Any,
    unknown: dict[str, Any],
) -> None:
    """Refuse wrong values of the arguments that every optimizer takes, and arguments that it does not have."""
    _not_sharded(optimizer)
    if unknown:
        raise TypeError(_unknown(optimizer, next(iter(unknown))))
    whole("samples", samples, low=1)
    flag("antithetic", antithetic)
    flag("store_mean", store_mean)
    one_of("nonfinite", nonfinite, ("raise", "skip"))
    one_of("backend", backend, backends.NAMES)
    if generator is not None and not isinstance(generator, torch.Generator):
        raise TypeError(
            f"generator must be a torch.Generator, got {generator!r}: torch.Generator().manual_seed({generator!r})"
        )
    if antithetic and samples % 2:
        raise ValueError(f"samples must be even with antithetic=True, which draws pairs, got {samples!r}")


def _not_sharded(optimizer: str) -> None:
    """Refuse to be built by ZeroRedundancyOptimizer, which gives every rank a part of the weights: a sample needs all of them."""
    zero = sys.modules.get("torch.distributed.optim.zero_redundancy_optimizer")
    frame: FrameType | None = None if zero is None else sys._getframe()
    while frame is not None:
        if frame.f_globals is vars(zero):
            raise ValueError(
                f"{optimizer} does not work inside ZeroRedundancyOptimizer: every rank would perturb a part of the weights, and the "
                f"posterior would be wrong. Shard weights and state with torch.distributed.fsdp.fully_shard instead"
            )
        frame = frame.f_back


def refuse_other_sharding(optimizer: str, params: Iterable[torch.Tensor]) -> None:
    """Refuse weights that are distributed otherwise than by FSDP2 alone.

    FSDP1 keeps pieces of a flat vector in their place. With tensor parallelism several ranks of one model share weights: each would draw
    other noise for them.
    """
    for p in params:
        if getattr(p, "_fsdp_flattened", False):
            raise ValueError(
                f"{optimizer} does not work with FullyShardedDataParallel (FSDP1), whose ranks hold pieces of a flat vector in place of "
                f"the parameters: shard with torch.distributed.fsdp.fully_shard (FSDP2)"
            )
        if is_tensor_parallel(p):
            raise ValueError(
                f"{optimizer} does not work with tensor parallelism: a parameter of shape {tuple(p.shape)} is repeated on several ranks of "
                f"one model, which would each draw their own noise for it. Shard with torch.distributed.fsdp.fully_shard alone"
            )


def whole(name: str, value: Any, *, low: int) -> None:
    """Raise unless the value is a whole number of at least ``low``."""
    try:
        valid = not isinstance(value, bool) and operator.index(value) >= low
    except TypeError:
        valid = False
    if not valid:
        raise ValueError(f"{name} must be a whole number of at least {low}, got {value!r}")


def flag(name: str, value: Any) -> None:
    """Raise unless the value is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {value!r}")


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise unless the value is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def deterministic(group: dict[str, Any]) -> None:
    """Refuse a group that is not clearly deterministic or sampled, or deterministic without a prior."""
    flag("deterministic", group["deterministic"])
    if group["deterministic"] and group.get("prior_precision", 1.0) == 0:
        raise ValueError("prior_precision must be above 0 in a deterministic group, got 0: give a tiny one, e.g. 1e-8")


def _unknown(optimizer: str, name: str) -> str:
    hints = {
        "weight_decay": "the prior is prior_precision: a weight decay w is prior_precision = num_data * w",
        "deterministic": "it belongs to a parameter group: [{'params': ..., 'deterministic': True}, ...]",
        "train_set_size": "it is num_data here",
        "ess": "it is num_data here",
        "mc_samples": "it is samples here",
    }
    return f"{optimizer} has no argument {name!r}: {hints.get(name, 'help(vadam.' + optimizer + ') lists them')}"
