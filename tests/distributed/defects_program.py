# ruff: noqa: PT017
"""Run by torchrun: ranks that use different branches of a model stay equal; uneven inputs are refused before anything hangs."""

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
import torch.distributed as dist
from leaving import leave
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from specs import SPECS, Spec

LOOPED = [spec for spec in SPECS if "attach" in spec.ways]


def equal_on_all_ranks(tensors: list[Tensor]) -> bool:
    def gathered(x: Tensor) -> list[Tensor]:
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x.contiguous())
        return parts

    return all(all(torch.equal(part, x) for part in gathered(x)) for x in tensors)


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Linear(4, 6)
        self.b1, self.b2, self.unused = nn.Linear(6, 1), nn.Linear(6, 1), nn.Linear(6, 1)

    def forward(self, x: Tensor, branch: int) -> Tensor:
        return (self.b1, self.b2)[branch](self.trunk(x).tanh())


def branches_stay_equal(spec: Spec, backend: str) -> None:
    torch.manual_seed(0)
    model = Branches()
    ddp = DistributedDataParallel(model, find_unused_parameters=True)
    opt = spec.make(model.parameters(), backend=backend).attach(ddp)
    rank = dist.get_rank()
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(rank))
    for step in range(4):
        opt.zero_grad()
        ddp(x, (rank + step // 2) % 2).square().mean().backward()
        opt.step()
        posterior = opt.posterior()
        everything = [p.detach() for p in model.parameters()] + list(posterior.precision.values())
        assert all(value.isfinite().all() for value in everything), f"{spec} {backend}: not finite"
        assert equal_on_all_ranks(everything), f"{spec} {backend}: the ranks differ"
    opt.detach()


def uneven_inputs_are_refused(spec: Spec, backend: str) -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    ddp = DistributedDataParallel(model)
    opt = spec.make(model.parameters(), backend=backend).attach(ddp)
    before = [p.detach().clone() for p in model.parameters()]
    try:
        with ddp.join():
            for _ in range(2 + dist.get_rank()):
                opt.zero_grad()
                ddp(torch.ones(3, 4)).mean().backward()
                opt.step()
    except RuntimeError as error:
        assert "uneven inputs" in str(error), error
    else:
        raise AssertionError(f"{spec} must refuse uneven inputs")
    assert all(map(torch.equal, before, (p.detach() for p in model.parameters())))
    opt.detach()


def samples_of_deterministic_weights_count(spec: Spec, backend: str) -> None:
    """Adam's first step is α (ĝ + λ̃μ)/(√ĥ + λ̃), where ĥ is the mean of the squares of all samples' gradients."""
    if spec.make([nn.Parameter(torch.ones(1))]).supports_deterministic:
        return
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    ddp, weight = DistributedDataParallel(model), model[2].weight
    groups = [
        {"params": model[0].parameters()},
        {"params": model[2].parameters(), "deterministic": True, "lr": 0.1, "prior_precision": 1.0},
    ]
    opt = spec.make(groups, backend=backend, samples=3, num_data=100).attach(ddp)
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(dist.get_rank()))
    before, seen = weight.detach().clone(), []

    def closure() -> Tensor:
        opt.zero_grad()
        loss = ddp(x).square().mean()
        loss.backward()
        seen.append(weight.grad.clone())
        return loss

    opt.step(closure)
    g = torch.stack(seen)
    expected = before - 0.1 * (g.mean(0) + before / 100) / (g.square().mean(0).sqrt() + 1 / 100)
    torch.testing.assert_close(weight.detach(), expected, msg=lambda text: f"{spec} {backend}: {text}")
    opt.detach()


class Around(nn.Module):
    """A user's module that keeps the distributed one inside, as Lightning Fabric's does."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


def ranks_stay_equal_with_a_module_around_ddp(spec: Spec, backend: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    around = Around(DistributedDataParallel(model))
    opt = spec.make(model.parameters(), backend=backend).attach(around)
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(dist.get_rank()))
    for _ in range(3):
        opt.zero_grad()
        around(x).square().mean().backward()
        opt.step()
    everything = [p.detach() for p in model.parameters()] + list(opt.posterior().precision.values())
    assert equal_on_all_ranks(everything), f"{spec} {backend}: the ranks differ"
    opt.detach()


def means_that_round_differently_are_refused(spec: Spec, backend: str) -> None:
    model = nn.Linear(4, 1)
    ddp = DistributedDataParallel(model)
    opt = spec.make(model.parameters(), backend=backend, store_mean=False).attach(ddp)
    try:
        ddp(torch.ones(3, 4))
    except RuntimeError as error:
        assert "store_mean=False" in str(error), error
    else:
        raise AssertionError(f"{spec} {backend}: the ranks would take away noise of their own")
    opt.detach()


def main() -> None:
    dist.init_process_group("gloo")
    for spec in LOOPED:
        for backend in ("plain", "native"):
            branches_stay_equal(spec, backend)
            uneven_inputs_are_refused(spec, backend)
            samples_of_deterministic_weights_count(spec, backend)
            ranks_stay_equal_with_a_module_around_ddp(spec, backend)
            means_that_round_differently_are_refused(spec, backend)
        if dist.get_rank() == 0:
            print("ok", spec, flush=True)


if __name__ == "__main__":
    main()
    leave()
