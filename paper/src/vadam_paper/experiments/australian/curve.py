"""Record the test log-loss of all seeds along the training, and summarise it."""

from typing import Any

import torch
from torch import Tensor

END = (4_500, 5_000)
"""Steps over which the curve is averaged for its final value."""
EARLY = 1_000
TARGET_BITS = 0.65
SHOWN = 100


class Curve:
    """The joint and pointwise test log-loss of all seeds, every few steps."""

    def __init__(self, every: int) -> None:
        self.every = every
        self.joint: list[Tensor] = []
        self.pointwise: list[Tensor] = []

    def add(self, joint: Tensor, pointwise: Tensor) -> None:
        self.joint.append(joint)
        self.pointwise.append(pointwise)

    def tensors(self) -> dict[str, Tensor]:
        return {"joint": torch.stack(self.joint), "pointwise": torch.stack(self.pointwise)}

    def load(self, tensors: dict[str, Tensor]) -> None:
        self.joint, self.pointwise = list(tensors["joint"]), list(tensors["pointwise"])

    def summary(self) -> dict[str, Any]:
        """Return the losses in bits.

        ``end`` and ``early`` are per seed. The curve is the mean and the 10 % and 90 % quantiles over seeds.
        """
        joint, pointwise = torch.stack(self.joint), torch.stack(self.pointwise)
        step = self.every * torch.arange(1, len(joint) + 1)
        return {
            "joint": self._numbers(joint, step),
            "pointwise": self._numbers(pointwise, step),
            "curve": self._shown(joint, step),
            "pointwise_curve": self._shown(pointwise, step),
        }

    def _numbers(self, loss: Tensor, step: Tensor) -> dict[str, Any]:
        end = (step > END[0]) & (step <= END[1])
        if not end.any():
            end = step > 0.9 * step[-1]
        return {
            "end": loss[end].mean(0),
            "at_500": loss[(step - 500).abs().argmin()],
            "early": loss[step <= EARLY].mean(0),
            "steps_to_target": self._steps_to_target(loss, step),
        }

    def _steps_to_target(self, loss: Tensor, step: Tensor) -> list[int | None]:
        """Return the first step from which the mean of five evaluations is below the target; None if never."""
        if len(loss) < 5:
            return [None] * loss.shape[1]
        smooth = loss.unfold(0, 5, 1).mean(-1)
        below = smooth < TARGET_BITS
        return [int(step[hits.int().argmax()]) if hits.any() else None for hits in below.T]

    def _shown(self, loss: Tensor, step: Tensor) -> dict[str, Any]:
        """Return the curve as means of ``SHOWN`` equal intervals."""
        size = max(1, len(loss) // SHOWN)
        whole = len(loss) // size * size
        windows = loss[:whole].reshape(-1, size, loss.shape[1]).mean(1)
        low, high = torch.quantile(windows, torch.tensor([0.1, 0.9], dtype=loss.dtype), dim=1)
        rounded = {"mean": windows.mean(1), "low": low, "high": high}
        return {"step": step[:whole:size]} | {name: (1e4 * v).round() / 1e4 for name, v in rounded.items()}
