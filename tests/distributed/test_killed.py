"""One rank is lost in the middle of a step: the others end with an error that says so, the checkpoint is whole, resuming is exact."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from matrix import covers
from vadam.integrations import checkpoint

PROGRAM = Path(__file__).with_name("killed_program.py")
RANKS = 2


def started(folder: Path, how: str) -> list[subprocess.Popen[str]]:
    """Start processes without torchrun, which would end the others itself: here each must notice."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(RANKS)}
    return [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), str(folder), how],
            env={**os.environ, **where, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(RANKS)
    ]


def survivor_of(folder: Path, how: str) -> str:
    """Return the final output of the other rank."""
    survivor, lost = started(folder, how)
    try:
        _, errors = survivor.communicate(timeout=120)
    finally:
        lost.kill()
        lost.communicate()
    assert survivor.returncode not in (0, -signal.SIGKILL)
    return errors


@covers("many processes", "lost rank: clear error, whole checkpoint, exact resume", optimizers=["Vadam", "VOGN"])
@pytest.mark.slow
def test_lost_ranks(tmp_path: Path) -> None:
    """Four starts: a rank dies in a step, dies while it saves, hangs; then none. The end is that of a run without interruption."""
    signs = {"dies": "by peer", "dies-saving": "by peer", "hangs": "Timed out waiting 6000ms"}
    for how, sign in signs.items():
        errors = survivor_of(tmp_path, how)
        assert sign in errors, how
        assert re.search(
            r"Rank 0 of 2 has lost contact with another rank: restart all ranks .*step-00000006", errors
        ), how
        for name in ("ddp", "fsdp"):
            assert checkpoint.latest(tmp_path / name).name == "step-00000006"
    for output, errors in [process.communicate(timeout=120) for process in started(tmp_path, "lives")]:
        assert output.splitlines() == ["starts after 6", "same as without interruption: True"], errors[-3000:]
