"""Convert an optimizer's state to named tensors, for checkpoints that contain only tensors."""

import torch
from torch import Tensor


def tensors_of(optimizer: torch.optim.Optimizer, prefix: str) -> dict[str, Tensor]:
    """Return the state under the names ``prefix/parameter number/field``."""
    state = optimizer.state_dict()["state"]
    return {f"{prefix}/{n}/{what}": _tensor(value) for n, kept in state.items() for what, value in kept.items()}


def load_tensors(optimizer: torch.optim.Optimizer, prefix: str, tensors: dict[str, Tensor]) -> None:
    """Load the state; groups and their arguments stay as they are."""
    whole = optimizer.state_dict()
    whole["state"] = {}
    for name in (name for name in tensors if name.startswith(f"{prefix}/")):
        _, number, what = name.rsplit("/", 2)
        whole["state"].setdefault(int(number), {})[what] = tensors[name]
    optimizer.load_state_dict(whole)


def _tensor(value: Tensor | float) -> Tensor:
    """Convert a number to a float64 tensor."""
    return value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)
