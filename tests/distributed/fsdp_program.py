# ruff: noqa: E402
"""Run by torchrun: optimizers under FSDP2, noise per shard, state sharded, the mean restored."""

import os
import sys
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.simplefilter("error")
sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from specs import SPECS


def main() -> None:
    dist.init_process_group("gloo")
    for spec in SPECS:
        if "attach" not in spec.ways or spec.needs_attach:
            continue
        torch.manual_seed(0)  # the same on all ranks: the noise of the shards must differ all the same
        model = nn.Sequential(nn.Linear(3, 8, bias=False), nn.Tanh(), nn.Linear(8, 2, bias=False)).double()
        x, y = torch.randn(16, 3, dtype=torch.float64), torch.randn(16, 2, dtype=torch.float64)
        fully_shard(model)
        params = list(model.parameters())
        opt = spec.make(params).attach(model)
        for _ in range(2):
            opt.zero_grad()
            mean = [p.to_local().clone() for p in params]
            model.eval()
            at_mean = float((model(x) - y).square().mean().detach())
            model.reshard()
            model.train()
            loss = (model(x) - y).square().mean()
            noise = [p.to_local() - m for p, m in zip(params, mean, strict=True)]
            shards = [torch.empty_like(noise[0]) for _ in range(dist.get_world_size())]
            dist.all_gather(shards, noise[0].contiguous())
            assert all(not torch.equal(shards[0], other) for other in shards[1:]), "the shards have the same noise"
            losses = [torch.empty_like(loss) for _ in range(dist.get_world_size())]
            dist.all_gather(losses, loss.detach())
            assert all(torch.equal(losses[0], other) for other in losses), "the ranks see different weights"
            assert abs(float(loss.detach()) - at_mean) > 1e-6, "the forward pass did not see the sample"
            loss.backward()
            opt.eval()
            assert all(torch.equal(p.to_local(), m) for p, m in zip(params, mean, strict=True))
            opt.step()
        first = params[0]
        assert all(isinstance(v, DTensor) for k, v in opt.state[first].items() if k not in ("step", "s0"))
        if dist.get_rank() == 0:
            print("ok", spec, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
