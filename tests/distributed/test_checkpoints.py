"""Checkpoints by torch.distributed.checkpoint: saved by two ranks, loaded by two, four and one."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict

import vadam
from matrix import covers
from specs import SPECS, Problem, Spec, same, snapshot
from vadam.integrations import checkpoint

PROGRAM = Path(__file__).with_name("checkpoint_program.py")
DDP = [spec for spec in SPECS if "attach" in spec.ways]
FSDP = [spec for spec in DDP if spec.can_be_sharded]
BOTH = [("ddp", spec) for spec in DDP] + [("fsdp", spec) for spec in FSDP]


def run(folder: Path, what: str, ranks: int) -> list[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", str(PROGRAM)]
    result = subprocess.run([*command, str(folder), what], capture_output=True, text=True, timeout=280)
    assert result.returncode == 0, result.stderr[-3000:]
    return [line for line in result.stdout.splitlines() if line.startswith("ok")]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    assert run(folder, "save", 2) == [f"ok save {kind} {spec}" for kind, spec in BOTH]
    return folder


@covers("DDP", "checkpoint on 2 ranks: resume exactly; load on 4 and 1: same state", optimizers=DDP)
@covers("FSDP2", "checkpoint on 2 ranks: resume exactly; load on 4 and 1: same state", optimizers=FSDP)
@pytest.mark.slow
@pytest.mark.xdist_group("checkpoints")
def test_four_ranks_load_what_two_have_saved(saved: Path) -> None:
    assert run(saved, "load", 4) == [f"ok load {kind} {spec}" for kind, spec in BOTH]


@pytest.mark.xdist_group("checkpoints")
@pytest.mark.parametrize(("kind", "spec"), BOTH, ids=[f"{kind}-{spec}" for kind, spec in BOTH])
def test_one_process_loads_what_two_ranks_have_saved(kind: str, spec: Spec, saved: Path) -> None:
    model = network()
    opt = spec.make(groups(model)).attach(model)
    place = saved / f"{kind}-{spec}"
    assert checkpoint.load(checkpoint.latest(place), model, opt) == {"epoch": 1.5, "step": 3}
    params = [p for group in opt.param_groups for p in group["params"]]
    state = [opt.state[p][name] for p in params for name in sorted(opt.state[p])]
    found = [torch.as_tensor(x, dtype=torch.float64).detach() for x in [*params, *state]]
    assert same(found, torch.load(place / "expected.pt"))


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).double()


def groups(model: nn.Module) -> list[dict]:
    return [{"params": model[0].parameters()}, {"params": model[2].parameters(), "deterministic": True}]


@pytest.mark.parametrize("spec", DDP, ids=str)
def test_torch_asks_a_new_optimizer_for_its_state(spec: Spec) -> None:
    """torch.distributed.checkpoint creates the state of a new optimizer and changes nothing else."""
    model = network()
    opt = spec.make(groups(model), generator=torch.Generator().manual_seed(0)).attach(model)
    before, random = [p.detach().clone() for p in model.parameters()], opt.generator.get_state()
    _, state = get_state_dict(model, opt)
    assert set(state["state"]) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert same([p.detach() for p in model.parameters()], before)
    assert torch.equal(opt.generator.get_state(), random)
    fresh = spec.make(groups(model)).attach(model)
    fresh.posterior()
    for name, value in fresh.state[model[0].weight].items():
        torch.testing.assert_close(state["state"]["0.weight"][name], value, rtol=0, atol=0)


@pytest.mark.parametrize("spec", [spec for spec in SPECS if "attach" not in spec.ways], ids=str)
def test_an_optimizer_that_evaluates_the_loss_resumes(spec: Spec, tmp_path: Path) -> None:
    """torch asks for the state by a step without a closure, which these optimizers refused: what was saved could not be loaded."""
    straight, resumed = Problem(), Problem()
    generator = torch.Generator().manual_seed(1)
    opt = spec.make(straight.model.parameters(), generator=generator)
    for _ in range(3):
        straight.step(opt, spec, "closure")
    path = checkpoint.save(tmp_path, straight.model, opt, step=3)
    straight.step(opt, spec, "closure")
    other = spec.make(resumed.model.parameters(), generator=torch.Generator())
    assert checkpoint.load(path, resumed.model, other) == {"step": 3}
    resumed.step(other, spec, "closure")
    assert same(resumed.weights() + snapshot(other), straight.weights() + snapshot(opt))


def test_a_checkpoint_is_not_written_over_and_a_half_written_one_is_not_found(tmp_path: Path) -> None:
    model = network()
    opt = vadam.Vadam(model.parameters(), num_data=10)
    assert checkpoint.latest(tmp_path) is None
    for step in (9, 10):
        checkpoint.save(tmp_path, model, opt, step=step)
    (tmp_path / ".writing-step-00000011").mkdir()
    (tmp_path / ".writing-step-00000011" / "__0_0.distcp").write_bytes(b"half")
    (tmp_path / "step-00000012").mkdir()
    assert checkpoint.latest(tmp_path).name == "step-00000010"
    with pytest.raises(FileExistsError, match=r"step-00000010.*delete it"):
        checkpoint.save(tmp_path, model, opt, step=10)
    with pytest.raises(ValueError, match=r"step must be an integer, at least 0, got -1"):
        checkpoint.save(tmp_path, model, opt, step=-1)
    checkpoint.save(tmp_path, model, opt, step=11)
    assert checkpoint.latest(tmp_path).name == "step-00000011"
    shutil.copytree(checkpoint.latest(tmp_path), tmp_path / "step-00000012-best")
    assert checkpoint.latest(tmp_path).name == "step-00000011"
