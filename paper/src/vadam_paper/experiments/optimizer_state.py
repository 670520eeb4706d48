"""An optimizer's state as named tensors, for checkpoints that hold tensors and nothing else."""

import torch
from torch import Tensor


def tensors_of(optimizer: torch.optim.Optimizer, prefix: str) -> dict[str, Tensor]:
    """Return the state under the names ``prefix/number of the parameter/what``."""
    state = optimizer.state_dict()["state"]
    return {f"{prefix}/{n}/{what}": _tensor(value) for n, kept in state.items() for what, value in kept.items()}


def load_tensors(optimizer: torch.optim.Optimizer, prefix: str, tensors: dict[str, Tensor]) -> None:
    """Put them back; groups and their arguments stay as the optimizer was made with."""
    whole = optimizer.state_dict()
    whole["state"] = {}
    for name in (name for name in tensors if name.startswith(f"{prefix}/")):
        _, number, what = name.rsplit("/", 2)
        whole["state"].setdefault(int(number), {})[what] = tensors[name]
    optimizer.load_state_dict(whole)


def _tensor(value: Tensor | float) -> Tensor:
    """Return a number with all of its digits."""
    return value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)
