# ruff: noqa: PT017
"""Run by torchrun: every optimizer under DDP, checked on every rank against the rule applied to gathered gradients."""

import os
import sys
from contextlib import nullcontext
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
import torch.distributed as dist
from expected import fields, largest_gradient
from leaving import leave
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_

from specs import SPECS, Problem, Spec
from vadam import curvature
from vadam.rules.binding import call


def gathered(x: Tensor) -> Tensor:
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return torch.stack(parts)


def equal_on_all_ranks(tensors: list[Tensor]) -> bool:
    return all(bool((gathered(x) == x).all()) for x in tensors)


def expected_update(opt, problem: Problem, drawn: list[Tensor], rows: slice, spec: Spec) -> list[Tensor]:
    """ĝ and ĥ over all ranks from this rank's own sample, by plain autograd, then the rule."""
    params = list(problem.model.parameters())
    means = [p.detach().clone() for p in params]
    with torch.no_grad():
        for p, theta in zip(params, drawn, strict=True):
            p.copy_(theta)
    if spec.needs_attach:
        squares = [torch.zeros_like(p) for p in params]
        for i in range(rows.start, rows.stop):
            for s, g in zip(squares, torch.autograd.grad(problem.loss(slice(i, i + 1)), params), strict=True):
                s += g**2 / (rows.stop - rows.start)
    grads = torch.autograd.grad(problem.loss(rows), params)
    with torch.no_grad():
        for p, mean in zip(params, means, strict=True):
            p.copy_(mean)
    result = []
    group = opt.param_groups[0]
    rule, rule_args = opt._rule_and_args(group)
    means_of_grads = [gathered(g).mean(0) for g in grads]
    rule_args = rule_args | largest_gradient(opt, params, means_of_grads)
    for k, (p, g) in enumerate(zip(params, grads, strict=True)):
        precision = dict(opt._precisions([p]))[p] + rule_args["sampling_precision"]
        g_hat = means_of_grads[k]
        if spec.needs_attach:
            h = gathered(squares[k]).mean(0)
        elif not spec.elementwise:
            state = rule.State(means[k], **fields(rule, opt.state[p]))
            h = gathered(call(rule.products, state, g, drawn[k] - means[k], rule_args=rule_args)).mean(0)
        elif spec.degree == 1:
            h = gathered(curvature.reparameterised(g, (drawn[k] - means[k]) * precision.sqrt(), precision)).mean(0)
        else:
            h = g_hat**2
        state = rule.State(p.detach(), **fields(rule, opt.state[p]))
        result.append(call(rule.update, state, g_hat, h, rule_args=rule_args).mu)
    return result


def refuses_to_be_attached_inside(spec: Spec) -> None:
    """Attached to the bare module it could not know that there are other ranks, and theirs would go other ways."""
    problem = Problem()
    ddp = DistributedDataParallel(problem.model)
    opt = spec.make(problem.model.parameters()).attach(problem.model)
    try:
        ddp(problem.x)
    except RuntimeError as error:
        assert "with the DistributedDataParallel module itself" in str(error)
    else:
        raise AssertionError(f"{spec} must not go on inside DistributedDataParallel")
    opt.detach()


def after_scaling_and_clipping(spec: Spec, rows: slice, way: str, scale: float) -> list[Tensor]:
    """Train with a scaled loss whose gradient is unscaled and clipped, as GradScaler and trainers do."""
    torch.manual_seed(0)
    problem = Problem()
    ddp, params = DistributedDataParallel(problem.model), list(problem.model.parameters())
    opt = spec.make(params, generator=torch.Generator().manual_seed(0)).attach(ddp)

    def take_gradient() -> None:
        opt.zero_grad()
        (scale * (ddp(problem.x[rows]) - problem.y[rows]).square().mean()).backward()

    def rescale() -> None:
        for p in params:
            p.grad /= scale
        clip_grad_norm_(params, 0.05)

    def closure() -> None:
        take_gradient()
        rescale()

    for _ in range(2):
        if way == "closure":
            opt.step(closure)
            continue
        with opt.sampled_params() if way == "context" else nullcontext():
            take_gradient()
        rescale()
        opt.step()
    opt.detach()
    return params + list(opt.posterior().precision.values())


def main() -> None:
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    rows = slice(rank * 40 // size, (rank + 1) * 40 // size)
    for spec in SPECS:
        if "attach" not in spec.ways:
            model = DistributedDataParallel(Problem().model)
            try:
                spec.make(model.parameters()).attach(model)
            except ValueError as error:
                assert "train in one process" in str(error)
            else:
                raise AssertionError(f"{spec} must say that it is for one process")
            if rank == 0:
                print("ok", spec, flush=True)
            continue
        if spec.degree == 1:
            try:
                spec.make(Problem().model.parameters()).train()
            except RuntimeError as error:
                assert "call opt.attach(model) once" in str(error)
            else:
                raise AssertionError(f"{spec} must not go on unattached")
        if spec.degree == 1 or spec.needs_attach:
            refuses_to_be_attached_inside(spec)
        torch.manual_seed(0)
        problem = Problem()
        ddp = DistributedDataParallel(problem.model)
        opt = spec.make(problem.model.parameters()).attach(ddp)
        drawn: list[Tensor] = []

        def loss(rows=rows, problem=problem, ddp=ddp, drawn=drawn) -> Tensor:
            value = (ddp(problem.x[rows]) - problem.y[rows]).square().mean()
            drawn[:] = [p.detach().clone() for p in problem.model.parameters()]
            return value

        def closure(opt=opt, loss=loss) -> Tensor:
            opt.zero_grad()
            value = loss()
            value.backward()
            return value

        for way in ("closure", "context", "attach"):
            if way == "closure":
                opt.step(closure)
            elif way == "context":
                opt.zero_grad()
                with opt.sampled_params():
                    loss().backward()
                opt.step()
            else:
                opt.zero_grad()
                loss().backward()
                mean = opt.posterior().mean
                sample = [x.clone() for x in drawn]
                opt.eval()
                assert all(torch.equal(a, b) for a, b in zip(mean.values(), problem.model.parameters(), strict=True))
                wanted = expected_update(opt, problem, sample, rows, spec)
                opt.train()
                opt.step()
                for p, mu in zip(problem.model.parameters(), wanted, strict=True):
                    # The noise is read back from θ − μ, which costs some digits.
                    torch.testing.assert_close(p.detach(), mu, rtol=1e-7, atol=1e-9)
            everything = [p.detach() for p in problem.model.parameters()] + list(opt.posterior().precision.values())
            assert equal_on_all_ranks(everything), f"{spec} {way}: the ranks differ"
            assert not equal_on_all_ranks(drawn), f"{spec} {way}: the ranks drew the same noise"
        opt.detach()
        several = spec.make(problem.model.parameters(), samples=2).attach(ddp)
        for _ in range(2):
            several.zero_grad()
            for _ in range(2):
                loss().backward()
            several.step()
        assert equal_on_all_ranks([p.detach() for p in problem.model.parameters()]), f"{spec}: two samples"
        several.detach()
        for way in ("closure", "context", "attach"):
            plain, scaled = (after_scaling_and_clipping(spec, rows, way, scale) for scale in (1.0, 64.0))
            for a, b in zip(plain, scaled, strict=True):
                torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-12)
        if rank == 0:
            print("ok", spec, flush=True)


if __name__ == "__main__":
    main()
    leave()
