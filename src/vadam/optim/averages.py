"""Means over the samples of a step: of gradients, curvatures and losses."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

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
