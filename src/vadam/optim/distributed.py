"""Many processes, one posterior.

Under DistributedDataParallel every rank draws its own noise, so that R ranks give R Monte-Carlo samples for the price of one. DDP
averages the gradients, which is all that Vadam, Vprop and VadaGrad need; the curvature of the others is a product with a rank's own
noise or of a rank's own examples, and is averaged here. Mean and precision then stay the same on all ranks, bit for bit.

Under FSDP2 every rank draws the noise of its own shard: there is one sample, and nothing to average.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

PLAIN = (Tensor, nn.Parameter)  # whatever else calls itself a tensor may not lie in memory as one


def several_ranks() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def seed_of_this_rank(seed: int) -> int:
    """A seed that differs between ranks also where their generators do not."""
    if not several_ranks():
        return seed
    digest = hashlib.blake2b(f"{seed},{dist.get_rank()}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 2


def local(x: Tensor) -> Tensor:
    """This rank's shard of a sharded tensor (FSDP2), or the tensor itself."""
    return x.to_local() if is_sharded(x) else x  # type: ignore[attr-defined]


def whole(x: Tensor) -> Tensor:
    """All shards of a sharded tensor put together, on every rank, or the tensor itself."""
    return x.full_tensor() if is_sharded(x) else x  # type: ignore[attr-defined]


def sharded_like(p: Tensor, shard: Tensor) -> Tensor:
    """A sharded tensor laid out as ``p``, made of each rank's own ``shard``; without sharding, the shard itself."""
    if not is_sharded(p):
        return shard
    from torch.distributed.tensor import DTensor  # slow to import, and only known to those who shard

    assert isinstance(p, DTensor)
    return DTensor.from_local(shard, p.device_mesh, p.placements, run_check=False, shape=p.shape, stride=p.stride())


def is_sharded(x: Tensor) -> bool:
    return type(x) not in PLAIN and hasattr(x, "device_mesh")


def replicas_of(model: nn.Module) -> dist.ProcessGroup | None:
    """The processes that train this model together, where it is replicated over several."""
    if isinstance(model, torch._dynamo.OptimizedModule):
        return replicas_of(model._orig_mod)
    if isinstance(model, DistributedDataParallel) and dist.get_world_size(model.process_group) > 1:
        return model.process_group
    return None


def inside_replica() -> bool:
    """Whether a forward pass of a DistributedDataParallel module over several ranks is under way."""
    ddp = DistributedDataParallel._active_ddp_module
    return ddp is not None and replicas_of(ddp) is not None


def unwrapped(model: nn.Module) -> nn.Module:
    """The user's own module, without DDP and torch.compile around it."""
    while isinstance(model, DistributedDataParallel | torch._dynamo.OptimizedModule):
        model = model.module if isinstance(model, DistributedDataParallel) else model._orig_mod
    return model


def mean_over(group: dist.ProcessGroup, tensors: list[Tensor]) -> list[Tensor]:
    """The mean of each tensor over the ranks, in one message per dtype; bit for bit the same on every rank."""
    means: list[Tensor] = [torch.empty(0)] * len(tensors)
    for dtype in sorted({x.dtype for x in tensors}, key=str):
        index = [i for i, x in enumerate(tensors) if x.dtype == dtype]
        flat = torch.cat([tensors[i].flatten() for i in index])
        dist.all_reduce(flat, group=group)
        flat /= dist.get_world_size(group)
        for i, piece in zip(index, flat.split([tensors[i].numel() for i in index]), strict=True):
            means[i] = piece.view_as(tensors[i])
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
        for handle in self._handles:
            handle.remove()
        return self._sums
