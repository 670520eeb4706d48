"""Means over the samples of a step: of gradients, curvatures and losses."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

import torch
from torch import Tensor

from vadam.backends import Backend, Moments
from vadam.backends.bucket import Grads, are_same
from vadam.backends.shards import local


def running_means(means: list[Grads], new: list[Grads], count: int) -> list[Grads]:
    """Return means of ``count`` values in place of the means so far; a parameter that took no part in a sample counts as zero."""
    if all(are_same(*pair) for pair in zip(means, new, strict=True)):  # one operation, and no hash of a parameter
        torch._foreach_lerp_(
            [x for mean in means for x in mean.values()], [x for y in new for x in y.values()], 1 / count
        )
        return means
    return [_running_mean(*pair, count) for pair in zip(means, new, strict=True)]


def _running_mean(mean: Grads, new: Grads, count: int) -> Grads:
    both = [p for p in mean if p in new]
    if both:
        torch._foreach_lerp_([mean[p] for p in both], [new[p] for p in both], 1 / count)
    for p in mean.keys() - new.keys():
        mean[p].mul_(1 - 1 / count)
    return mean | {p: x / count for p, x in new.items() if p not in mean}


class Squared(Protocol):
    """Describes an optimizer whose curvature ĥ is ĝ∘ĝ if it supports deterministic weights."""

    supports_deterministic: bool

    @property
    def _backend(self) -> Backend: ...


class BothMeans:
    """Adds gradients and their squares to ĝ and ĥ in one call, where the backend has one."""

    def __init__(self, optimizer: Squared) -> None:
        self._optimizer = optimizer
        self._means: tuple[Grads, Grads, Moments | None] | None = None

    def add(self, mean: Grads, squares: Grads | None, g: Grads, count: int) -> bool:
        """Add g and g∘g to the means of ``count`` values; return False if both means are as they were."""
        optimizer = self._optimizer
        if squares is None or not optimizer.supports_deterministic or not (are_same(g, mean) and are_same(g, squares)):
            return False
        if self._means is None or self._means[0] is not mean or self._means[1] is not squares:
            self._means = mean, squares, optimizer._backend.moments([*mean.values()], [*squares.values()])
        moments = self._means[2]
        if moments is not None:
            moments.add([*g.values()], 1 / count)
        return moments is not None


def copies(tensors: Collection[Tensor]) -> list[Tensor]:
    """Return copies of tensors, by one operation for all of a device."""
    values = [x.detach() for x in tensors]
    found = [torch.empty_like(x) for x in values]
    if found:
        torch._foreach_copy_([*map(local, found)], [*map(local, values)])
    return found


def mean_of_losses(losses: list[Any]) -> Any:
    """Return the mean of what the closure returned, None if it returned None. To be called without autograd."""
    if any(loss is None for loss in losses):
        return None
    if not all(isinstance(loss, (Tensor, float, int)) for loss in losses):
        raise TypeError(
            f"the closure must return the loss, a number or a tensor, but returned a {type(losses[0]).__name__}"
        )
    if isinstance(losses[0], Tensor):
        return losses[0].detach() if len(losses) == 1 else torch.stack(losses).mean(0)
    return sum(losses) / len(losses)
