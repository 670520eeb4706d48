# ruff: noqa: E402
"""Run by torchrun: optimizers under FSDP2. Noise per shard, state sharded, and every update that of one process at the same sample."""

import itertools
import os
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.simplefilter("error")
sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
import torch.distributed as dist
from expected import fields, largest_gradient
from leaving import leave
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.utils import clip_grad_norm_

from specs import SPECS, Spec
from vadam import curvature
from vadam.forward import sampled_outputs
from vadam.rules.binding import call

G = torch.Generator().manual_seed(1)
X, Y = torch.randn(16, 3, generator=G, dtype=torch.float64), torch.randn(16, 2, generator=G, dtype=torch.float64)
CLIP = 0.5


def network(dtype: torch.dtype) -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8, bias=False), nn.Tanh(), nn.Linear(8, 2, bias=False)).to(dtype)


def whole(x: Tensor | float) -> Tensor | float:
    if isinstance(x, float):
        return x
    return (x.full_tensor() if isinstance(x, DTensor) else x).detach().clone()


def gathered(x: Tensor) -> list[Tensor]:
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return parts


class Sharded:
    """A sharded model, its optimizer, and the same things whole, as one process would have them."""

    def __init__(self, spec: Spec, samples: int = 1, dtype: torch.dtype = torch.float64) -> None:
        torch.manual_seed(0)  # the same on all ranks: the noise of the shards must differ all the same
        self.dtype, self.x, self.y = dtype, X.to(dtype), Y.to(dtype)
        self.model = network(dtype)
        fully_shard(self.model)
        self.params = list(self.model.parameters())
        self.spec, self.opt = spec, spec.make(self.params, samples=samples).attach(self.model)
        size, rank = dist.get_world_size(), dist.get_rank()
        self.rows = slice(rank * 16 // size, (rank + 1) * 16 // size)
        self.drawn: list[list[Tensor]] = []

    def loss(self, rows: slice | None = None) -> Tensor:
        rows = rows or self.rows
        output = self.model(self.x[rows])
        self.drawn.append([whole(p) for p in self.params])
        return (output - self.y[rows]).square().mean()

    def expected(self, before: list[Tensor]) -> list[Tensor]:
        """Return the mean after the step: gradients of all data at the samples that were drawn, on a plain network, then the rule."""
        plain, clipped, h = (
            network(self.dtype),
            [torch.zeros_like(mu) for mu in before],
            [torch.zeros_like(mu) for mu in before],
        )
        group = self.opt.param_groups[0]
        rule, rule_args = self.opt._rule_and_args(group)
        precision = [whole(dict(self.opt._precisions([p]))[p]) + rule_args["sampling_precision"] for p in self.params]
        samples = self.drawn[:: len(self.drawn) // self.opt.samples]
        for sample in samples:
            with torch.no_grad():
                for p, theta in zip(plain.parameters(), sample, strict=True):
                    p.copy_(theta)
            grads = torch.autograd.grad((plain(self.x) - self.y).square().mean(), list(plain.parameters()))
            for k, g in enumerate(grads):
                eps = (sample[k] - before[k]) * precision[k].sqrt()
                linear = self.spec.degree == 1
                clipped[k] += g / len(samples)
                h[k] += (curvature.reparameterised(g, eps, precision[k]) if linear else g**2) / len(samples)
        norm = torch.stack([g.norm() for g in clipped]).norm()
        factor = (CLIP / (norm + 1e-6)).clamp(max=1.0)
        result = []
        rule_args = rule_args | largest_gradient(self.opt, self.params, [factor * g for g in clipped])
        for k, p in enumerate(self.params):
            state = rule.State(before[k], **{name: whole(x) for name, x in fields(rule, self.opt.state[p]).items()})
            new = call(rule.update, state, factor * clipped[k], factor**self.spec.degree * h[k], rule_args=rule_args)
            result.append(new.mu)
        return result

    def step(self, way: str, pieces: int = 1) -> None:
        opt, before = self.opt, [whole(p) for p in self.params]
        self.drawn.clear()
        length = (self.rows.stop - self.rows.start) // pieces
        parts = [slice(self.rows.start + i * length, self.rows.start + (i + 1) * length) for i in range(pieces)]

        def passes() -> None:
            for rows in parts:
                (self.loss(rows) / pieces).backward()

        opt.zero_grad()
        for _ in range(opt.samples):
            if way == "context":
                with opt.sampled_params():
                    passes()
            else:
                passes()
        noise = gathered(self.drawn[0][0] - before[0])
        assert all(torch.equal(noise[0], other) for other in noise), "the ranks see different weights"
        shards = noise[0].chunk(dist.get_world_size())
        assert all(not torch.equal(shards[0], other) for other in shards[1:]), "the shards have the same noise"
        clip_grad_norm_(self.params, CLIP)
        opt.eval()
        assert all(torch.equal(whole(p), mu) for p, mu in zip(self.params, before, strict=True)), "not the mean"
        wanted = self.expected(before)
        opt.step()
        for p, mu in zip(self.params, wanted, strict=True):
            rtol, atol = (1e-7, 1e-9) if self.dtype is torch.float64 else (1e-4, 1e-5)  # ε is read back from θ − μ
            torch.testing.assert_close(whole(p), mu, rtol=rtol, atol=atol)


def evaluation_sees_the_mean(sharded: Sharded) -> None:
    model, opt = sharded.model, sharded.opt
    plain = network(sharded.dtype)
    with torch.no_grad():
        for p, mu in zip(plain.parameters(), sharded.params, strict=True):
            p.copy_(whole(mu))
    model.eval()
    torch.testing.assert_close(model(sharded.x).detach(), plain(sharded.x).detach())
    model.train()
    post = opt.posterior(model)
    for (name, mean), p in zip(post.mean.items(), sharded.params, strict=True):
        assert not isinstance(mean, DTensor), "the posterior is whole"
        assert torch.equal(mean, whole(p))
        assert torch.equal(post.precision[name], whole(dict(opt._precisions([p]))[p]))
    if post.prior_precision is not None:
        assert post.kl() > 0
    try:
        sampled_outputs(model, post, sharded.x, 8)
    except ValueError as error:
        assert "the model is sharded" in str(error)  # noqa: PT017
    else:
        raise AssertionError("a sharded model would predict with its mean")


def every_forward_pass_gathers_the_weights_as_they_are(spec: Spec, way: str, *, after_forward: bool) -> None:
    """Evaluate before each step: gathered weights stay behind, of the root or, if they are not sharded again, of all layers."""
    model, plain = network(torch.float64), network(torch.float64)
    for layer in (model[2], model):
        fully_shard(layer, reshard_after_forward=after_forward)
    names, shards = zip(*model.named_parameters(), strict=True)
    opt = spec.make(shards)
    with torch.no_grad():
        model(X)
    opt.attach(model)

    def output() -> Tensor:
        found = model(X)
        with torch.no_grad():
            for p, shard in zip(plain.parameters(), shards, strict=True):
                p.copy_(whole(shard))
            torch.testing.assert_close(found.detach(), plain(X))
        return found

    def closure() -> Tensor:
        opt.zero_grad()
        loss = (output() - Y).square().mean()
        loss.backward()
        return loss

    for _ in range(3):
        model.eval()
        with torch.no_grad():
            output()
        assert list(opt.posterior(model).mean) == list(names), "gathered weights are other tensors than the shards"
        with torch.no_grad():
            output()
        assert list(opt.posterior().mean) == list(names)
        with torch.no_grad():
            output()
        model.train()
        if way == "closure":
            opt.step(closure)
            continue
        with opt.sampled_params() if way == "context" else nullcontext():
            closure()
        opt.step()
    opt.detach()
    try:
        with opt.sampled_params():
            pass
    except RuntimeError as error:
        assert "call opt.attach(model) once" in str(error)  # noqa: PT017
    else:
        raise AssertionError(f"{spec} must say that a sharded model is to be attached")


def every_rank_collects_a_posterior_in_the_same_order(spec: Spec) -> None:
    sizes = range(2, 12)
    model = nn.Sequential(*(nn.Linear(n, n + 1) for n in sizes)).double()
    fully_shard(model)
    opt = spec.make(model.named_parameters()).attach(model)
    opt.zero_grad()
    model(torch.ones(4, 2, dtype=torch.float64)).square().mean().backward()
    opt.step()
    post = opt.posterior(model)
    assert [tuple(mean.shape) for mean in post.mean.values()] == [s for n in sizes for s in ((n + 1, n), (n + 1,))]
    opt.detach()


def a_group_may_have_no_weight_on_some_ranks(spec: Spec) -> None:
    model = nn.Linear(3, 1).double()
    fully_shard(model)
    opt = spec.make([{"params": [model.weight]}, {"params": [model.bias], "lr": 0.01}]).attach(model)
    for _ in range(2):
        opt.zero_grad()
        model(torch.ones(4, 3, dtype=torch.float64)).square().mean().backward()
        opt.step()
    assert all(x.isfinite().all() for x in opt.posterior(model).precision.values())
    opt.detach()


def replicas_of_shards_stay_equal_or_are_refused(spec: Spec) -> None:
    torch.manual_seed(0)
    model = network(torch.float64)
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(), 1), mesh_dim_names=("replicate", "shard")))
    try:
        opt = spec.make(model.parameters()).attach(model)
    except ValueError as error:
        assert spec.degree == 1
        assert "several ranks with their own noise" in str(error)  # noqa: PT017
        return
    for _ in range(2):
        opt.zero_grad()
        model(X[dist.get_rank() :: 2]).square().mean().backward()
        opt.step()
    for p in model.parameters():
        own = [p.detach().to_local(), dict(opt._precisions([p]))[p].to_local()]
        assert all(torch.equal(x, other) for x in own for other in gathered(x)), f"{spec}: the replicas differ"
    opt.detach()


def tensor_parallelism_is_refused(spec: Spec) -> None:
    mesh = init_device_mesh("cpu", (1, dist.get_world_size()), mesh_dim_names=("data", "tensor"))
    for bias, sharded in ((False, False), (True, False), (True, True)):
        model = nn.Sequential(
            nn.Linear(3, 8, bias=False), nn.Tanh(), nn.Linear(8, 2, bias=bias), nn.LayerNorm(2)
        ).double()
        parallelize_module(model, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        if sharded:
            fully_shard(model, mesh=mesh["data"])
        try:
            spec.make(model.parameters()).attach(model)
        except ValueError as error:
            assert "tensor parallelism" in str(error)  # noqa: PT017
        else:
            raise AssertionError(f"{spec}: ranks that share a bias would draw it each on their own")


def fsdp1_is_refused(spec: Spec) -> None:
    for keeps_parameters, wrapped_first in ((False, True), (True, True), (True, False)):
        model = network(torch.float64)
        before = list(model.parameters())
        sharded = FullyShardedDataParallel(model, use_orig_params=keeps_parameters, device_id=torch.device("cpu"))
        try:
            spec.make(sharded.parameters() if wrapped_first else before).attach(sharded)
        except ValueError as error:
            assert "fully_shard (FSDP2)" in str(error)  # noqa: PT017
        else:
            raise AssertionError(f"{spec}: the posterior would hold pieces of a flat vector")


def main() -> None:
    dist.init_process_group("gloo")
    for spec in SPECS:
        if "attach" not in spec.ways:
            continue
        if not spec.can_be_sharded:
            try:
                Sharded(spec)
            except ValueError as error:
                assert "FSDP2 shards them" in str(error)  # noqa: PT017
            else:
                raise AssertionError(f"{spec} must say that it cannot be sharded")
        else:
            native = Sharded(spec, dtype=torch.float32)
            for way in ("attach", "context"):
                native.step(way)
                native.step(way, pieces=2)
            one, two = Sharded(spec), Sharded(spec, samples=2)
            for way in ("attach", "context"):
                one.step(way)
                one.step(way, pieces=2)
                two.step(way)
            two.step("context", pieces=2)
            evaluation_sees_the_mean(one)
            for way, after_forward in itertools.product(("attach", "context", "closure"), (True, False)):
                every_forward_pass_gathers_the_weights_as_they_are(spec, way, after_forward=after_forward)
            every_rank_collects_a_posterior_in_the_same_order(spec)
            a_group_may_have_no_weight_on_some_ranks(spec)
            replicas_of_shards_stay_equal_or_are_refused(spec)
            tensor_parallelism_is_refused(spec)
            fsdp1_is_refused(spec)
            first = one.params[0]
            kept = fields(one.opt.rule, one.opt.state[first])  # the largest gradient is one number for all ranks
            assert all(isinstance(v, DTensor | float) for v in kept.values()), "the state is sharded"
            if "peak" in one.opt.state[first]:
                peaks = gathered(one.opt.state[first]["peak"])
                assert all(torch.equal(peaks[0], other) for other in peaks), "the ranks bound their steps differently"
        if dist.get_rank() == 0:
            print("ok", spec, flush=True)


if __name__ == "__main__":
    main()
    leave()
