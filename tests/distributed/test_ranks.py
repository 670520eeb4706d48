"""Real processes: torchrun and gloo, DistributedDataParallel and FSDP2."""

import subprocess
import sys
from pathlib import Path

import pytest

from specs import SPECS


def run(program: str, ranks: int) -> list[str]:
    path = Path(__file__).with_name(program)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert result.returncode == 0, result.stderr[-3000:]
    return [line for line in result.stdout.splitlines() if line.startswith("ok")]


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_ddp(ranks: int) -> None:
    """Every rank draws its own noise; mean and precision stay equal on all ranks, and follow the rule on the gathered gradients."""
    assert run("ddp_program.py", ranks) == [f"ok {spec}" for spec in SPECS if "attach" in spec.ways]


def test_fsdp2() -> None:
    """Every rank draws the noise of its own shard; all ranks see the same sample; the state is sharded like the weights."""
    assert run("fsdp_program.py", 2) == [
        f"ok {spec}" for spec in SPECS if "attach" in spec.ways and not spec.needs_attach
    ]
