"""Compilation with torch.compile, and the fallback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from vadam.compiling import RECENT, check_cache, compiled


def double(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


@pytest.mark.skipif(not RECENT, reason="torch.compile takes such options from torch 2.8 on")
@pytest.mark.parametrize(("capability", "bits"), [("AVX2", 256), ("AVX512", 512), ("DEFAULT", None)])
def test_code_on_the_disk_is_that_of_a_width(monkeypatch: pytest.MonkeyPatch, capability: str, bits: int) -> None:
    given = []
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(torch, "compile", lambda f, **how: given.append(how["options"]))
    compiled(double, subject="this", consequence="so it is slow")
    compiled(double, subject="this", consequence="so it is slow", options={"max_autotune": False})
    width = {} if bits is None else {"cpp.simdlen": bits}
    assert given == [width or None, width | {"max_autotune": False}]


PROGRAM = """
import torch
from vadam.ensemble import MLP, Member, Method, train

x = torch.linspace(-2, 2, 50).unsqueeze(1)
members = [Member(x, x.sin(), noise_precision=10.0, seed=seed) for seed in range(5)]
training = train(members, MLP(1, 13, 1), Method('vadam', lr=0.01, samples=3), epochs=2, batch_size=10, compiled=True)
print(" ".join(f"{value:.3f}" for value in training.stack.mean["0.bias"].flatten()))
"""


@pytest.mark.slow
@pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() != "AVX512", reason="needs a processor with two widths")
def test_another_width_with_the_same_cache(tmp_path: Path) -> None:
    """torch's cache alone would hand the loops of 256 bits to vectors of 512, which write past the ends of tensors."""
    printed = []
    for capability in ("avx2", "avx512"):
        own = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "ATEN_CPU_CAPABILITY": capability}
        command = [sys.executable, "-W", "error", "-c", PROGRAM]
        result = subprocess.run(command, env=os.environ | own, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr[-3000:]
        printed.append(result.stdout)
    assert printed[0] == printed[1]


def test_where_nothing_can_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is one warning with the reason, then the original function runs."""
    calls = []

    def broken(x: torch.Tensor) -> torch.Tensor:
        calls.append(x)
        raise RuntimeError("no C++ compiler\n\nand a long explanation")

    monkeypatch.setattr(torch, "compile", lambda f, **how: broken)
    run = compiled(double, subject="the sum", consequence="so it is slow")
    with pytest.warns(
        UserWarning, match=r"^the sum cannot be compiled here, so it is slow \(RuntimeError: no C.. compiler\)$"
    ):
        assert run(torch.ones(1)) == 2
    assert run(torch.ones(1)) == 2
    assert len(calls) == 1


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_native_code_of_another_user_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache has a known name below the temporary folder: somebody else may have made it."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    own = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: own + 1)
    function = compiled(double, subject="this", consequence="so it is slow")
    with pytest.warns(
        UserWarning, match=r"cannot be compiled here.*belongs to another user: set TORCHINDUCTOR_CACHE_DIR"
    ):
        assert function(torch.ones(2)).tolist() == [2.0, 2.0]
    assert not any(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_others_cannot_write_to_the_cache_of_native_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (tmp_path / "new", tmp_path / "open"):
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder))
        if folder.name == "open":
            folder.mkdir()
            folder.chmod(0o777)
        check_cache()
        assert not folder.stat().st_mode & 0o022
