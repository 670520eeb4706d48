# ruff: noqa: E402
"""Run by torchrun: checkpoints of every optimizer under DDP and FSDP2, saved by one number of ranks and loaded by another.

checkpoint_program.py FOLDER save    trains, saves, trains on; loads into a fresh optimizer, trains on, arrives at the same bits
checkpoint_program.py FOLDER load    loads what another number of ranks has saved, and finds every number of it
"""

import os
import sys
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.simplefilter("error")
sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
import torch.distributed as dist
from leaving import leave
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from specs import SPECS, Spec
from vadam.integrations import checkpoint

SPECS_OF = {
    "ddp": [spec for spec in SPECS if "attach" in spec.ways],
    "fsdp": [spec for spec in SPECS if "attach" in spec.ways and spec.can_be_sharded],
}


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).double()


def build(spec: Spec, kind: str, seed: int):
    """Return a model with deterministic parameters, and its optimizer with a generator for each rank."""
    model = network()
    if kind == "fsdp":
        fully_shard(model)
    wrapped = DistributedDataParallel(model) if kind == "ddp" else model
    groups = [{"params": model[0].parameters()}, {"params": model[2].parameters(), "deterministic": True}]
    generator = torch.Generator().manual_seed(seed + dist.get_rank())
    return wrapped, spec.make(groups, generator=generator).attach(wrapped)


def train(model: nn.Module, opt, steps: range) -> None:
    for step in steps:
        g = torch.Generator().manual_seed(step)
        x, y = torch.randn(8, 3, generator=g, dtype=torch.float64), torch.randn(8, 2, generator=g, dtype=torch.float64)
        opt.zero_grad()
        (model(x) - y).square().mean().backward()
        opt.step()


def whole(x: Tensor | float) -> Tensor:
    return x.full_tensor() if isinstance(x, DTensor) else torch.as_tensor(x, dtype=torch.float64).detach().clone()


def everything(opt) -> list[Tensor]:
    params = [p for group in opt.param_groups for p in group["params"]]
    return [whole(p) for p in params] + [whole(opt.state[p][name]) for p in params for name in sorted(opt.state[p])]


def same(a: list[Tensor], b: list[Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def main(folder: Path, what: str) -> None:
    dist.init_process_group("gloo")
    for kind, specs in SPECS_OF.items():
        for spec in specs:
            place = folder / f"{kind}-{spec}"
            if what == "save":
                model, opt = build(spec, kind, seed=10)
                train(model, opt, range(3))
                path = checkpoint.save(place, model, opt, step=3, extra={"epoch": 1.5})
                if dist.get_rank() == 0:
                    assert checkpoint.latest(place) == path
                saved = everything(opt)
                train(model, opt, range(3, 5))
                on = everything(opt)
                assert not same(saved, on)
                model, opt = build(spec, kind, seed=99)
                assert checkpoint.load(path, model, opt) == {"epoch": 1.5, "step": 3}
                train(model, opt, range(3, 5))
                assert same(everything(opt), on), f"{kind} {spec}: not resumed exactly"
                if dist.get_rank() == 0:
                    torch.save(saved, place / "expected.pt")
            else:
                model, opt = build(spec, kind, seed=99)
                checkpoint.load(checkpoint.latest(place), model, opt)
                assert same(everything(opt), torch.load(place / "expected.pt")), (
                    f"{kind} {spec}: the numbers have changed"
                )
                train(model, opt, range(3, 4))
                assert all(bool(x.isfinite().all()) for x in everything(opt))
            dist.barrier()
            if dist.get_rank() == 0:
                print("ok", what, kind, spec, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
    leave()
