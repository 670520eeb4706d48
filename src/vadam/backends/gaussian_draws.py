"""Draws from a mean-field Gaussian at native speed: float32 on the CPU, torch's operators elsewhere."""

from __future__ import annotations

import torch
from torch import Tensor

from vadam import backends
from vadam.backends.memory_pages import empty_in_large_pages
from vadam.backends.noise import NoiseSource
from vadam.gaussian import MeanFieldGaussian

Weights = dict[str, Tensor]


def draw_weights(
    post: MeanFieldGaussian, n: int, generator: torch.Generator | None = None, used: Weights | None = None
) -> Weights:
    """Return n draws of the weights, stacked along a new first axis, and the point weights expanded.

    ``used`` holds at least n earlier draws of this function that are no longer needed: theirs is the memory of the new ones.
    """
    tensors = [*post.mean.values(), *post.precision.values()]
    fits = all(x.is_cpu and x.dtype is torch.float32 for x in tensors)
    if not fits or not post.mean or not backends.has_native():
        return post.sample(n, generator=generator)
    from vadam.backends.native import fill_with_draws

    mean, precision = ([x.contiguous() for x in values.values()] for values in (post.mean, post.precision))
    draws = [
        empty_in_large_pages(n, *mu.shape) if used is None else used[name][:n]
        for name, mu in zip(post.mean, mean, strict=True)
    ]
    fill_with_draws(draws, mean, precision, NoiseSource(generator).seed)
    points = {name: value.expand(n, *value.shape) for name, value in post.point.items()}
    return dict(zip(post.mean, draws, strict=True)) | points
