"""Shards of parameters under FSDP2: every rank computes on its own."""

from __future__ import annotations

from torch import Tensor, nn

PLAIN = (Tensor, nn.Parameter)  # other subclasses may not lie in memory as a tensor does


def is_sharded(x: Tensor) -> bool:
    """Return True for a tensor that is distributed over ranks."""
    return type(x) not in PLAIN and hasattr(x, "device_mesh")


def is_replicated(x: Tensor) -> bool:
    """Return True for a distributed tensor of which several ranks hold the same part."""
    return is_sharded(x) and any(
        placement.is_replicate() and x.device_mesh.size(axis) > 1  # type: ignore[attr-defined]
        for axis, placement in enumerate(x.placements)  # type: ignore[attr-defined]
    )


def is_tensor_parallel(x: Tensor) -> bool:
    """Return True for a tensor that is repeated along the last axis of its mesh, which FSDP2 always shards."""
    return is_sharded(x) and x.placements[-1].is_replicate() and x.device_mesh.size(-1) > 1  # type: ignore[attr-defined]


def local(x: Tensor) -> Tensor:
    """Return this rank's shard, or the tensor itself if it is not sharded."""
    return x if type(x) in PLAIN or not is_sharded(x) else x.to_local()  # type: ignore[attr-defined]


def whole(x: Tensor) -> Tensor:
    """Return all shards put together, on every rank, or the tensor itself if it is not sharded."""
    return x.full_tensor() if is_sharded(x) else x  # type: ignore[attr-defined]


def sharded_like(p: Tensor, shard: Tensor) -> Tensor:
    """Return a sharded tensor laid out as ``p`` made of each rank's ``shard``, or the shard itself if ``p`` is not sharded."""
    if not is_sharded(p):
        return shard
    from torch.distributed.tensor import DTensor  # slow to import

    assert isinstance(p, DTensor)
    return DTensor.from_local(shard, p.device_mesh, p.placements, run_check=False, shape=p.shape, stride=p.stride())
