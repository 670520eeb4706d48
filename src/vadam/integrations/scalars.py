"""Numbers to watch while a posterior is trained, for TensorBoard, Weights & Biases or any other logger.

log(writer, opt, step, model, loss=lambda: loss_fn(model(x), y))      # a SummaryWriter of torch.utils.tensorboard
wandb.log(scalars(opt, model), step=step)                            # a dictionary, for everything else
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from vadam.gaussian import FullGaussian
from vadam.optim import VariationalOptimizer


class ScalarWriter(Protocol):
    """A writer with TensorBoard's method ``add_scalar(tag, value, step)``."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int | None = None) -> object: ...


def scalars(
    opt: VariationalOptimizer, model: nn.Module | None = None, *, loss: Callable[[], Tensor] | None = None
) -> dict[str, float]:
    """Return the state of a posterior in a few numbers.

    ``posterior_std``: the mean standard deviation of the weights. ``posterior_snr``: the median of |mean|/standard deviation.
    ``prior_share``, ``start_share``, ``data_share``: the fractions of the precision, where they are known.
    ``loss_at_mean``: ``loss()`` at the mean, without gradients and in evaluation mode, if a loss and a model are given.
    """
    post = opt.posterior(model)
    marginals = post.marginals() if isinstance(post, FullGaussian) else post
    std = torch.cat([value.flatten() for value in marginals.stddev.values()])
    size = torch.cat([value.flatten() for value in marginals.mean.values()]).abs().to(std.dtype)
    found = {"posterior_std": float(std.mean()), "posterior_snr": float((size / std).median())}
    shares = post.summary().shares
    if shares is not None:
        found |= {"prior_share": shares.prior, "start_share": shares.start, "data_share": shares.data}
    if loss is not None:
        found["loss_at_mean"] = _at_mean(opt, model, loss)
    return found


def log(
    writer: ScalarWriter,
    opt: VariationalOptimizer,
    step: int,
    model: nn.Module | None = None,
    *,
    loss: Callable[[], Tensor] | None = None,
    prefix: str = "vadam/",
) -> None:
    """Write :func:`scalars` to TensorBoard, under names that start with ``prefix``."""
    for name, value in scalars(opt, model, loss=loss).items():
        writer.add_scalar(f"{prefix}{name}", value, step)


def _at_mean(opt: VariationalOptimizer, model: nn.Module | None, loss: Callable[[], Tensor]) -> float:
    if opt.holds_sample:
        raise RuntimeError(
            "loss_at_mean inside a step: the model holds a sample. Log before the forward pass or after step()"
        )
    if model is None:
        raise ValueError("loss= needs model=, so that the loss is computed in evaluation mode")
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            return float(loss())
    finally:
        for module, training in modes:
            module.training = training
