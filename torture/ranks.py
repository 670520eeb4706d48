"""Ranks: processes that train together by gloo, forked from one which has imported everything."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

from torture import processes
from torture.case import Failed

SECONDS = 30.0
"""How long a rank waits for one that does not answer."""


def start(act: Callable[[], object], ranks: int, folder: Path, seconds: float = SECONDS) -> list[int]:
    """Start ``act`` in processes with a rank each and return their ids; what they print goes to ``rank-<number>.log``."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]

    def begin(rank: int) -> None:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
        torch.set_num_threads(1)
        dist.init_process_group("gloo", timeout=timedelta(seconds=seconds))
        act()
        dist.barrier()

    for rank in range(ranks):
        log(folder, rank).unlink(missing_ok=True)
    return [processes.start(lambda rank=rank: begin(rank), log(folder, rank)) for rank in range(ranks)]


def run(act: Callable[[], object], ranks: int, folder: Path, seconds: float = 120.0) -> None:
    """Run ``act`` on all ranks; raise Failed with what the first rank that failed has printed."""
    children = start(act, ranks, folder)
    codes = [processes.finish(child, seconds) for child in children]
    for rank, code in enumerate(codes):
        if code:
            said = "\n".join(f"rank {k}: {processes.tail(log(folder, k), 900)}" for k in range(ranks))
            raise Failed(f"rank {rank} of {ranks} ended with exit code {code}\n{said}")


def log(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.log"


def say(text: str) -> None:
    print(text, file=sys.stdout, flush=True)


def check_equal(tensors: list[Tensor], subject: str) -> None:
    """Raise unless the tensors are finite and have the same bits on all ranks."""
    for k, x in enumerate(tensors):
        if not bool(x.isfinite().all()):
            raise Failed(f"{subject}: tensor {k} is not finite")
        first = x.detach().clone().contiguous()
        dist.broadcast(first, 0)
        if not torch.equal(first, x):
            raise Failed(f"{subject}: tensor {k} differs between rank 0 and rank {dist.get_rank()}")


def network(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))


def batch(step: int, rank: int, size: int = 8) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(1000 * rank + step)
    return torch.randn(size, 3, generator=g), torch.randn(size, 1, generator=g)


def whole_state(opt: torch.optim.Optimizer) -> list[Tensor]:
    """Return the weights and all state, in order."""
    params = [p for group in opt.param_groups for p in group["params"]]
    state = [torch.as_tensor(opt.state[p][k]) for p in params for k in sorted(opt.state[p])]
    return [x.detach().clone() for x in (*params, *state)]
