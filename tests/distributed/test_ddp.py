"""DistributedDataParallel in real processes: torchrun and gloo."""

import subprocess
import sys
from pathlib import Path

import pytest

from specs import SPECS


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_ddp(ranks: int) -> None:
    """Every rank draws its own noise; mean and precision stay equal on all ranks, and follow the rule on the gathered gradients."""
    program = Path(__file__).with_name("ddp_program.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", str(program)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr[-3000:]
    assert [line for line in result.stdout.splitlines() if line.startswith("ok")] == [
        f"ok {spec}" for spec in SPECS if "attach" in spec.ways
    ]
