"""Many processes, one posterior.

Under DistributedDataParallel every rank draws its own noise, so that R ranks give R Monte-Carlo samples for the price of one. DDP
averages the gradients, which is all that Vadam, Vprop and VadaGrad need; the curvature of the others is a product with a rank's own
noise or of a rank's own examples, and is averaged here. Mean and precision then stay the same on all ranks, bit for bit.

Under FSDP2 every rank draws the noise of its own shard: there is one sample, and nothing to average.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from vadam.backends.bucket import storage_dtype
from vadam.backends.shards import is_sharded
from vadam.fabric import is_fabric_module


def _is_compiled(model: nn.Module) -> bool:
    """Return True for a module that ``torch.compile`` returned, without importing the compiler."""
    dynamo = sys.modules.get("torch._dynamo")
    return dynamo is not None and isinstance(model, dynamo.OptimizedModule)


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the user's own module, without DDP, DataParallel, Lightning Fabric and torch.compile around it."""
    while True:
        if isinstance(model, DataParallel | DistributedDataParallel):
            model = model.module
        elif is_fabric_module(model):
            model = model._forward_module  # type: ignore[assignment]
        elif _is_compiled(model):
            model = model._orig_mod  # type: ignore[assignment]
        else:
            return model


def inside_wrapper(model: nn.Module) -> nn.Module | None:
    """Return the module that Fabric, DDP or DataParallel has wrapped, which may be compiled; None if there is no such wrapper."""
    inside = model
    while is_fabric_module(inside):
        inside = inside._forward_module  # type: ignore[assignment]
    if isinstance(inside, DataParallel | DistributedDataParallel):
        inside = inside.module
    return None if inside is model else inside


def ddp_of(model: nn.Module) -> DistributedDataParallel | None:
    """Return the DistributedDataParallel module over several ranks that the model is, or that is inside it."""
    ddps = (module for module in model.modules() if isinstance(module, DistributedDataParallel))
    return next((ddp for ddp in ddps if dist.get_world_size(ddp.process_group) > 1), None)


def refuse_join(ddp: DistributedDataParallel | None) -> None:
    """Raise inside ``ddp.join()``: ranks that ran out of data take no further steps, and their posteriors would differ."""
    if ddp is not None and ddp._join_config.enable:
        raise RuntimeError(
            "uneven inputs with DistributedDataParallel.join() are not supported: a rank that has run out of data takes no steps, so "
            "its posterior would differ from the others'. Give every rank the same number of batches, e.g. by "
            "DistributedSampler(..., drop_last=True)"
        )


def sharded_modules(model: nn.Module) -> list[Any]:
    """Return the modules that FSDP2 shards."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    return [] if fsdp is None else [module for module in model.modules() if isinstance(module, fsdp.FSDPModule)]


def reshard(model: nn.Module) -> None:
    """Let the parameters of a model that FSDP2 shards be its shards, in place of whole weights that a forward pass has gathered."""
    for module in sharded_modules(model):
        module.reshard()


def refuse_tensor_parallel(model: nn.Module) -> None:
    """Raise if weights of a model are distributed, and not by FSDP2: ranks that compute one output would draw noise each on their own."""
    if not sharded_modules(model) and any(is_sharded(p) for p in model.parameters()):
        raise ValueError(
            "attach(): the model's weights are distributed without FSDP2, as by tensor parallelism, where several ranks compute one output "
            "with noise of their own: shard it with torch.distributed.fsdp.fully_shard alone"
        )


def inside_replica() -> bool:
    """Return True during a forward pass of a DistributedDataParallel module over several ranks."""
    ddp = DistributedDataParallel._active_ddp_module
    return ddp is not None and dist.get_world_size(ddp.process_group) > 1


def mean_over(group: dist.ProcessGroup, params: list[Tensor], tensors: dict[Tensor, Tensor]) -> dict[Tensor, Tensor]:
    """Return the mean over the ranks of a tensor of each parameter, in one message per dtype, bit for bit the same on all.

    ``params`` are the same on all ranks. A rank that has no tensor of a parameter counts as zero; if no rank has one it is NaN.
    """
    means: dict[Tensor, Tensor] = {}
    for dtype in sorted({storage_dtype(p) for p in params}, key=str):
        alike = [p for p in params if storage_dtype(p) == dtype]
        sizes = [p.numel() for p in alike]
        present = torch.tensor([p in tensors for p in alike], dtype=dtype, device=alike[0].device)
        own = [(tensors[p] if p in tensors else torch.zeros_like(p)).to(dtype).flatten() for p in alike]
        message = torch.cat([*own, present])
        dist.all_reduce(message, group=group)
        *sums, counts = message.split([*sizes, len(alike)])
        known = torch.where(counts > 0, 1 / dist.get_world_size(group), torch.nan)
        means |= {p: (x * f).view(p.shape) for p, x, f in zip(alike, sums, known.unbind(), strict=True)}
    return means


class LocalGradients:
    """The gradients of this rank's own backward passes while a sample is open, before DDP averages them."""

    def __init__(self, params: list[Tensor], is_open: Callable[[], bool]) -> None:
        self._is_open = is_open
        self._sums: dict[Tensor, Tensor] = {}
        self._handles = [p.register_hook(lambda grad, p=p: self._add(p, grad)) for p in params]

    def _add(self, p: Tensor, grad: Tensor) -> None:
        if self._is_open():
            self._sums[p] = self._sums[p] + grad if p in self._sums else grad.clone()

    def take(self) -> dict[Tensor, Tensor]:
        """Return the gradients and stop listening."""
        for handle in self._handles:
            handle.remove()
        return self._sums
