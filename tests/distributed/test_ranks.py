"""Real processes: torchrun and gloo, DistributedDataParallel and FSDP2."""

import subprocess
import sys
from pathlib import Path

import pytest

from matrix import covers
from specs import SPECS

LOOPED = [spec for spec in SPECS if "attach" in spec.ways]
SHARDED = [spec for spec in LOOPED if spec.can_be_sharded]
ONE_PROCESS = [spec for spec in SPECS if "attach" not in spec.ways]
WHOLE_LAYERS = [spec for spec in LOOPED if not spec.can_be_sharded]

RANKS_OF_DDP = "2 and 4 ranks: own noise, one posterior bit for bit, the rule on gathered gradients"
RANKS_OF_FSDP2 = "2 and 4 ranks: noise per shard, updates of one process at the same sample"


def run(program: str, ranks: int, *arguments: str) -> list[str]:
    path = Path(__file__).with_name(program)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", str(path)]
    command += arguments
    result = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert result.returncode == 0, result.stderr[-3000:]
    return [line for line in result.stdout.splitlines() if line.startswith("ok")]


@covers("DDP", RANKS_OF_DDP, optimizers=LOOPED)
@covers("DDP", RANKS_OF_DDP, optimizers=ONE_PROCESS, refuses=True)
@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_ddp(ranks: int) -> None:
    """Every rank draws its own noise; mean and precision stay equal on all ranks, and follow the rule on the gathered gradients."""
    assert run("ddp_program.py", ranks) == [f"ok {spec}" for spec in SPECS]


def test_branches_and_uneven_inputs() -> None:
    """Ranks that use different branches of a model stay equal, bit for bit; uneven inputs are refused before anything hangs.

    The squares of all samples count for deterministic weights. A module around DistributedDataParallel changes nothing. Ranks that would
    round differently are refused.
    """
    assert run("defects_program.py", 2) == [f"ok {spec}" for spec in LOOPED]


@covers("FSDP2", RANKS_OF_FSDP2, optimizers=SHARDED)
@covers("FSDP2", RANKS_OF_FSDP2, optimizers=WHOLE_LAYERS, refuses=True)
@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_fsdp2(ranks: int) -> None:
    """Every rank draws the noise of its own shard; samples, clipping and micro-batches give the step that one process would take."""
    assert run("fsdp_program.py", ranks) == [f"ok {spec}" for spec in LOOPED]


@covers("Lightning", 'strategy="ddp" on 2 ranks, accumulation, with the callback', optimizers=LOOPED)
@pytest.mark.slow
def test_lightning_ddp(tmp_path: Path) -> None:
    """The callback attaches the optimizer to the module that Lightning has wrapped: own noise, one posterior."""
    pytest.importorskip("lightning", reason='Lightning is not installed: pip install "vadam[lightning]"')
    assert run("lightning_program.py", 2, str(tmp_path)) == [f"ok {spec}" for spec in LOOPED]
