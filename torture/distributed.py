"""Distributed: two and four ranks by gloo stay equal bit for bit, or a refusal says so before anything hangs.

Ranks die or hang, inputs are uneven, parameters unused, synchronisation is left out, graphs are static, optimizers sharded, and
checkpoints are resumed by more and by fewer ranks.

``python -m torture.distributed FOLDER`` is a rank of torchrun that dies in its first life and resumes in its second.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from specs import BY_NAME, SPECS, Spec, same
from torture import processes, ranks
from torture.case import Break, Case, Failed, Kind, Outcome, Part
from vadam.integrations import checkpoint

LOOPED = [spec for spec in SPECS if "attach" in spec.ways]


class Branches(nn.Module):
    """A model of which a pass uses one branch, and never the last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.branches = nn.Linear(3, 6), nn.ModuleList([nn.Linear(6, 1), nn.Linear(6, 1)])
        self.unused = nn.Linear(6, 1)

    def forward(self, x: Tensor, branch: int) -> Tensor:
        return self.branches[branch](self.trunk(x).tanh())


def equal(opt: Any, subject: str) -> None:
    ranks.check_equal([*ranks.whole_state(opt), *opt.posterior().precision.values()], subject)


def unused_parameters(spec: Spec, backend: str, seed: int) -> None:
    torch.manual_seed(0)
    model = Branches()
    ddp = DistributedDataParallel(model, find_unused_parameters=True)
    opt = spec.make(model.parameters(), backend=backend).attach(ddp)
    for step in range(4):
        x, y = ranks.batch(step + seed, dist.get_rank())
        opt.zero_grad()
        (ddp(x, (dist.get_rank() + step // 2 + seed) % 2) - y).square().mean().backward()
        opt.step()
        params = [p.detach() for p in model.parameters()]
        ranks.check_equal([*params, *opt.posterior().precision.values()], f"{spec} {backend}, unused parameters")


def no_sync(spec: Spec, backend: str, seed: int) -> None:
    """Accumulate three micro-batches, the last of them synchronised."""
    model = DistributedDataParallel(ranks.network())
    opt = spec.make(model.parameters(), backend=backend).attach(model)
    for step in range(3):
        opt.zero_grad()
        for k in range(3):
            x, y = ranks.batch(10 * step + k + seed, dist.get_rank())
            with nullcontext() if k == 2 else model.no_sync():
                ((model(x) - y).square().mean() / 3).backward()
        opt.step()
        equal(opt, f"{spec} {backend}, no_sync")


def static_graph(spec: Spec, backend: str, seed: int) -> None:
    model = DistributedDataParallel(ranks.network(), static_graph=True)
    opt = spec.make(model.parameters(), backend=backend).attach(model)
    for step in range(4):
        x, y = ranks.batch(step + seed, dist.get_rank())
        opt.zero_grad()
        (model(x) - y).square().mean().backward()
        opt.step()
        equal(opt, f"{spec} {backend}, static graph")


def uneven_inputs(spec: Spec, backend: str, seed: int) -> None:
    model = DistributedDataParallel(ranks.network())
    opt = spec.make(model.parameters(), backend=backend).attach(model)
    before = [p.detach().clone() for p in model.parameters()]
    try:
        with model.join():
            for step in range(2 + dist.get_rank()):
                x, y = ranks.batch(step + seed, dist.get_rank())
                opt.zero_grad()
                (model(x) - y).square().mean().backward()
                opt.step()
    except RuntimeError as error:
        if "uneven inputs" not in str(error):
            raise Failed(f"{spec} {backend}: join() ends in {error}") from error
    else:
        raise Failed(f"{spec} {backend}: uneven inputs are not refused")
    if not same([p.detach() for p in model.parameters()], before):
        raise Failed(f"{spec} {backend}: refused uneven inputs changed the weights")


def nonfinite_on_one_rank(spec: Spec, backend: str, seed: int) -> None:
    """Skip the step on all ranks if the loss of one overflows: DDP spreads what is not finite."""
    model = DistributedDataParallel(ranks.network())
    opt = spec.make(model.parameters(), backend=backend, nonfinite="skip").attach(model)
    for step in range(3):
        x, y = ranks.batch(step + seed, dist.get_rank())
        overflows = step == 1 and dist.get_rank() == seed % dist.get_world_size()
        opt.zero_grad()
        ((model(x) - y).square().mean() * (float("inf") if overflows else 1.0)).backward()
        opt.step()
    if opt.skipped_steps != 1:
        raise Failed(f"{spec} {backend}: {opt.skipped_steps} steps were skipped, not 1")
    equal(opt, f"{spec} {backend}, overflow on one rank")


def zero_redundancy(spec: Spec, backend: str, seed: int) -> None:
    """Refuse an optimizer that would see a part of the weights on each rank, before it trains."""
    model = DistributedDataParallel(ranks.network(seed))
    try:
        ZeroRedundancyOptimizer(model.parameters(), optimizer_class=spec.build, **spec.kwargs)
    except ValueError as error:
        if "fully_shard" not in str(error):
            raise Failed(f"{spec}: ZeroRedundancyOptimizer is refused without a way out: {error}") from error
    else:
        raise Failed(f"{spec}: ZeroRedundancyOptimizer is accepted")


SCENARIOS = (unused_parameters, no_sync, static_graph, uneven_inputs, nonfinite_on_one_rank, zero_redundancy)


def together(case: Case, number: int) -> Outcome:
    """Run all scenarios for a few optimizers on a number of ranks."""
    found = Outcome()
    backend, seed = case.random.choice(("native", "plain")), case.random.randrange(100)
    specs = [LOOPED[(3 * case.number + k) % len(LOOPED)] for k in range(3)]

    def act() -> None:
        for spec in specs:
            for scenario in SCENARIOS:
                scenario(spec, backend, seed)

    ranks.run(act, number, case.folder)
    found.add("scenarios", len(specs) * len(SCENARIOS))
    return found


# Ranks that are lost -----------------------------------------------------------------------------------------------------------

STEPS, FATAL = 8, 5


def training(
    folder: Path, name: str, backend: str, at: Callable[[int, str], None], end: Path | None = None, last: int = STEPS
) -> None:
    """Train from the newest checkpoint, save after every second step; ``at`` is told where it is."""
    model = DistributedDataParallel(ranks.network())
    torch.manual_seed(dist.get_rank())
    opt = BY_NAME[name].make(model.parameters(), backend=backend).attach(model)
    newest = checkpoint.latest(folder)
    done = checkpoint.load(newest, model, opt)["step"] if newest else 0
    with checkpoint.explain_lost_ranks(folder):
        for step in range(done, last):
            x, y = ranks.batch(step, dist.get_rank())
            opt.zero_grad()
            loss = (model(x) - y).square().mean()
            at(step, "backward")
            loss.backward()
            at(step, "step")
            opt.step()
            if step % 2:
                at(step, "save")
                checkpoint.save(folder, model, opt, step=step + 1)
    if end is not None:
        torch.save([*ranks.whole_state(opt), torch.get_rng_state()], f"{end}-{dist.get_rank()}")


def lost_rank(case: Case) -> Outcome:
    """Lose a rank at a random moment: the others end with an error that says so, and a restart has the end of a whole run."""
    found, folder, random = Outcome(), case.folder / "checkpoints", case.random
    number, name = random.choice((2, 4)), random.choice(("Vadam", "VOGN", "IVON", "BBVI", "VON", "EVON"))
    backend, moment = random.choice(("native", "plain")), random.choice(("backward", "step", "save"))
    how, lost = random.choice(("dies", "dies", "hangs")), random.randrange(number)
    said = f"{name} {backend}: rank {lost} of {number} {how} before {moment}"

    def at(step: int, where: str) -> None:
        if step == FATAL and where == moment and dist.get_rank() == lost:
            os.kill(os.getpid(), signal.SIGKILL if how == "dies" else signal.SIGSTOP)

    began = time.monotonic()
    children = ranks.start(lambda: training(folder, name, backend, at), number, case.folder, seconds=4)
    for rank, child in enumerate(children):
        if rank == lost:
            continue
        code = processes.finish(child, 90)
        text = processes.tail(ranks.log(case.folder, rank), 20_000)
        if code != 1:
            raise Failed(f"{said}: rank {rank} ends with exit code {code}: {text[-1500:]}")
        if (
            "has lost contact with another rank: restart all ranks to resume from" not in text
            or "step-00000004" not in text
        ):
            raise Failed(f"{said}: rank {rank} does not say what to do: {text[-1500:]}")
    found.figure("seconds until the other ranks have ended", time.monotonic() - began)
    processes.end(children[lost])
    end, expected = case.folder / "end", case.folder / "expected"
    ranks.run(lambda: training(folder, name, backend, lambda *_: None, end), number, case.folder)
    other = case.folder / "other"
    if (
        number > 2
    ):  # DDP adds the gradients of its first step in another order: compare with a clean stop after the same step
        ranks.run(lambda: training(other, name, backend, lambda *_: None, last=FATAL - 1), number, case.folder)
    ranks.run(lambda: training(other, name, backend, lambda *_: None, expected), number, case.folder)
    for rank in range(number):
        a, b = (torch.load(f"{path}-{rank}", weights_only=True) for path in (end, expected))
        if not same(a, b):
            raise Failed(f"{said}: after a restart rank {rank} ends elsewhere")
    found.add("scenarios")
    return found


def other_number(case: Case) -> Outcome:
    """Resume a checkpoint on more and on fewer ranks: state bit for bit, ranks equal, and each rank draws noise of its own."""
    found, folder = Outcome(), case.folder / "checkpoints"
    first = case.random.choice((1, 2, 4))
    second = case.random.choice([n for n in (1, 2, 4) if n != first])
    specs = [LOOPED[(3 * case.number + k) % len(LOOPED)] for k in range(3)]
    backend = case.random.choice(("native", "plain"))

    def save() -> None:
        for spec in specs:
            model, opt = build(spec, backend)
            steps(model, opt, 3)
            checkpoint.save(folder / spec.name, model, opt, step=3)
            if dist.get_rank() == 0:
                torch.save(ranks.whole_state(opt), case.folder / f"{spec.name}.pt")

    def load() -> None:
        for spec in specs:
            model, opt = build(spec, backend)
            checkpoint.load(checkpoint.latest(folder / spec.name), model, opt)
            said = f"{spec} {backend}: {first} ranks saved, {second} load"
            if not same(ranks.whole_state(opt), torch.load(case.folder / f"{spec.name}.pt", weights_only=True)):
                raise Failed(f"{said}: the state differs")
            with opt.sampled_params():
                drawn = torch.cat([p.detach().flatten() for p in model.parameters()])
            others = [torch.empty_like(drawn) for _ in range(second)]
            dist.all_gather(others, drawn)
            if any(torch.equal(a, b) for k, a in enumerate(others) for b in others[:k]):
                raise Failed(f"{said}: two ranks draw the same noise")
            steps(model, opt, 2)
            equal(opt, said)

    ranks.run(save, first, case.folder)
    ranks.run(load, second, case.folder)
    found.add("scenarios", len(specs))
    return found


def build(spec: Spec, backend: str) -> tuple[nn.Module, Any]:
    model = DistributedDataParallel(ranks.network())
    return model, spec.make(model.parameters(), backend=backend).attach(model)


def steps(model: nn.Module, opt: Any, number: int) -> None:
    for step in range(number):
        x, y = ranks.batch(step, dist.get_rank())
        opt.zero_grad()
        (model(x) - y).square().mean().backward()
        opt.step()


# torchrun ----------------------------------------------------------------------------------------------------------------------


def torchrun(case: Case) -> Outcome:
    """Lose a rank of torchrun, then start it again: gloo cannot connect in torchrun's own restarts, with or without vadam."""
    found, number = Outcome(), 2 + 2 * (case.number % 2)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={number}"]
    command += ["-m", "torture.distributed", str(case.folder)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    first, second = (
        subprocess.run(command, capture_output=True, text=True, timeout=140, env=environment) for _ in range(2)
    )
    # On a busy machine torchrun ends the other rank before that has noticed.
    words = ("has lost contact with another rank: restart all ranks to resume from", "(SIGTERM) received by PID")
    if not first.returncode or not any(word in first.stderr for word in words):
        raise Failed(f"torchrun, a lost rank: {first.stdout[-1500:]} {first.stderr[-2500:]}")
    if second.returncode or second.stdout.count("same as without a death") != number:
        raise Failed(f"torchrun, resumed: {second.stdout[-1500:]} {second.stderr[-2500:]}")
    found.add("scenarios")
    return found


def rank_of_torchrun(folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    first_life = not (folder / "checkpoints").exists()
    dist.barrier()

    def die(step: int, where: str) -> None:
        if first_life and step == FATAL and where == "step" and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    training(folder / "checkpoints", "IVON", "native", die, folder / "end")
    training(folder / "straight", "IVON", "native", lambda *_: None, None, FATAL - 1)
    training(folder / "straight", "IVON", "native", lambda *_: None, folder / "expected")
    a, b = (torch.load(f"{folder / name}-{dist.get_rank()}", weights_only=True) for name in ("end", "expected"))
    if same(a, b):
        ranks.say("same as without a death\n")
    dist.barrier()
    os._exit(0)


def warm() -> None:
    pass


KIND = Kind(
    "distributed",
    "Ranks stay equal bit for bit, or a refusal says why before anything hangs; a lost rank loses nothing that was saved.",
    "scenarios",
    120,
    300,
    {
        "two ranks": Part(lambda case: together(case, 2), share=6, seconds=300),
        "four ranks": Part(lambda case: together(case, 4), share=6, seconds=300),
        "lost rank": Part(lost_rank, share=1, seconds=400),
        "other number of ranks": Part(other_number, share=2, seconds=300),
        "torchrun": Part(torchrun, share=0.2, seconds=300),
    },
    warm=warm,
    breaks=(
        Break(
            "src/vadam/optim/distributed.py",
            "        dist.all_reduce(message, group=group)\n",
            "        message = message * dist.get_world_size(group)\n",
            "two ranks",
            "every rank keeps the curvature of its own noise: the posteriors of the ranks drift apart silently",
        ),
    ),
)


if __name__ == "__main__":
    rank_of_torchrun(Path(sys.argv[1]))
