# ruff: noqa: E402
"""One rank of a training that saves every third step and resumes from what it finds.

killed_program.py FOLDER HOW    HOW: what the last rank does. dies, in a step | dies-saving | hangs, in a step | lives, and compares
"""

import os
import signal
import sys
import warnings
from datetime import timedelta
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.simplefilter("error")
sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
import torch.distributed as dist
from leaving import leave
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import vadam
from vadam.integrations import checkpoint

STEPS, FATAL = 12, 7


class Training:
    """One network replicated and trained by VOGN, and sharded and trained by Vadam; the step number seeds minibatches."""

    def __init__(self) -> None:
        # Each rank has random numbers of its own, which the checkpoint must bring back.
        torch.manual_seed(dist.get_rank())
        replicated, sharded = network(), network()
        fully_shard(sharded)
        models = {"ddp": DistributedDataParallel(replicated), "fsdp": sharded}
        settings = {"num_data": 100, "init_precision": 20.0}
        kinds = {"ddp": vadam.VOGN, "fsdp": vadam.Vadam}
        self.pairs = {name: (m, kinds[name](m.parameters(), **settings).attach(m)) for name, m in models.items()}

    def step(self, number: int, in_the_middle=lambda: None) -> None:
        g = torch.Generator().manual_seed(2 * number + dist.get_rank())
        x, y = torch.randn(8, 3, generator=g), torch.randn(8, 1, generator=g)
        for model, opt in self.pairs.values():
            opt.zero_grad()
            loss = (model(x) - y).square().mean()
            in_the_middle()
            loss.backward()
            opt.step()

    def everything(self) -> list[torch.Tensor]:
        tensors = []
        for _, opt in self.pairs.values():
            params = [p for group in opt.param_groups for p in group["params"]]
            every = [*params, *(torch.as_tensor(value) for p in params for value in opt.state[p].values())]
            tensors += [(x.to_local() if hasattr(x, "to_local") else x).detach().clone() for x in every]
        return tensors


def network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))


def main(folder: Path, how: str) -> None:
    dist.init_process_group("gloo", timeout=timedelta(seconds=6))
    fatal = dist.get_rank() == dist.get_world_size() - 1

    def in_the_middle() -> None:
        if fatal and how in ("dies", "hangs"):
            os.kill(os.getpid(), signal.SIGKILL if how == "dies" else signal.SIGSTOP)

    def while_saving(*_args, **_kwargs):
        os.kill(os.getpid(), signal.SIGKILL)

    training = Training()
    done = 0
    for name, (model, opt) in training.pairs.items():
        found = checkpoint.latest(folder / name)
        done = checkpoint.load(found, model, opt)["step"] if found else 0
    print("starts after", done, flush=True)
    with checkpoint.explain_lost_ranks(folder / "ddp"):
        for number in range(done, STEPS):
            if number == FATAL and how == "dies-saving" and fatal:
                torch.distributed.checkpoint.FileSystemWriter.write_data = while_saving
            training.step(number, in_the_middle if number == FATAL else lambda: None)
            if (number + 1) % 3 == 0:
                for name, (model, opt) in training.pairs.items():
                    checkpoint.save(folder / name, model, opt, step=number + 1)
    resumed = training.everything()
    straight = Training()
    for number in range(STEPS):
        straight.step(number)
    same = all(torch.equal(a, b) for a, b in zip(resumed, straight.everything(), strict=True))
    print("same as without interruption:", same, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
    leave()
