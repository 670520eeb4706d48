"""Atomic writes: the old file or the new one, whoever else writes, and nothing left behind."""

import os
import signal
import stat
import subprocess
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from vadam import atomic, persist
from vadam.gaussian import MeanFieldGaussian


def posterior(size: int = 3) -> MeanFieldGaussian:
    return MeanFieldGaussian({"w": torch.zeros(size)}, {"w": torch.ones(size)})


WRITERS = {
    "atomic": lambda path: atomic.write_bytes(path, b"new"),
    "posterior": lambda path: persist.save(path, posterior()),
}
writers = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)


def files(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@writers
def test_a_planted_link_is_not_followed(write, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    for name in (".out.tmp", "out.tmp"):
        (tmp_path / name).symlink_to(victim)
    write(tmp_path / "out")
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / "out").is_symlink()


def test_a_temporary_file_is_created_exclusively(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = uuid.uuid4()
    monkeypatch.setattr(uuid, "uuid4", lambda: fixed)
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / f".out.{fixed.hex}.tmp").symlink_to(victim)
    with pytest.raises(FileExistsError):
        atomic.write_bytes(tmp_path / "out", b"new")
    assert victim.read_bytes() == b"precious"


@writers
def test_racing_writers_raise_nothing(write, tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda _: write(tmp_path / "out"), range(400)))
    assert files(tmp_path) == ["out"]


def test_racing_processes_raise_nothing(tmp_path: Path) -> None:
    program = "import pathlib, sys; from vadam import atomic\n"
    program += "for _ in range(200): atomic.write_bytes(pathlib.Path(sys.argv[1]), b'x' * 1000)"
    racing = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "out")], stderr=subprocess.PIPE) for _ in "ab"
    ]
    assert [process.communicate()[1] for process in racing] == [b"", b""]
    assert files(tmp_path) == ["out"]


@writers
def test_an_error_keeps_the_old_file_and_leaves_no_other(write, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "out").write_bytes(b"old")

    def disk_full(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", disk_full)
    with pytest.raises(OSError, match="disk full"):
        write(tmp_path / "out")
    assert files(tmp_path) == ["out"]
    assert (tmp_path / "out").read_bytes() == b"old"


def killed_while_writing(path: Path) -> None:
    """Start a process that stops for ever in the middle of a write, and kill it there."""
    program = "import os, pathlib, sys, time; from vadam import atomic\n"
    program += "os.fsync = lambda descriptor: (print('writing', flush=True), time.sleep(600))\n"
    program += "atomic.write_bytes(pathlib.Path(sys.argv[1]), b'half')"
    process = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"writing\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()


@writers
def test_what_a_killed_writer_left_goes_with_the_next_write(write, tmp_path: Path) -> None:
    killed_while_writing(tmp_path / "out")
    assert len(files(tmp_path)) == 1
    write(tmp_path / "out")
    assert files(tmp_path) == ["out"]


def test_other_files_stay(tmp_path: Path) -> None:
    others = [".out.tmp", ".out.mine.tmp", "out.tmp", f".other.{'0' * 32}.tmp", f".out[1].{'0' * 32}.tmp"]
    for name in others:
        (tmp_path / name).touch()
    atomic.write_bytes(tmp_path / "out", b"new")
    assert files(tmp_path) == sorted(["out", *others])


def test_a_writer_at_work_is_not_taken_for_a_killed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reached, go_on = threading.Event(), threading.Event()
    slow = threading.Thread(target=atomic.write_bytes, args=(tmp_path / "out", b"slow"))
    system_fsync = os.fsync

    def fsync(descriptor: int) -> None:
        if threading.current_thread() is slow:
            reached.set()
            assert go_on.wait(60)
        system_fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    slow.start()
    assert reached.wait(60)
    atomic.write_bytes(tmp_path / "out", b"quick")
    assert len(files(tmp_path)) == 2
    go_on.set()
    slow.join()
    assert (tmp_path / "out").read_bytes() == b"slow"
    assert files(tmp_path) == ["out"]


@pytest.mark.skipif(os.name == "nt", reason="file modes are POSIX")
def test_the_file_has_the_usual_mode(tmp_path: Path) -> None:
    atomic.write_bytes(tmp_path / "out", b"new")
    (tmp_path / "usual").touch()
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("out", "usual")}
    assert len(modes) == 1


def test_a_planted_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / f".out.{'0' * 32}.tmp")
    begun = time.monotonic()
    atomic.write_bytes(tmp_path / "out", b"new")
    assert time.monotonic() - begun < 10


def test_missing_folders_are_created_by_default(tmp_path: Path) -> None:
    atomic.write_text(tmp_path / "new" / "deep" / "out", "ñ")
    assert (tmp_path / "new" / "deep" / "out").read_bytes() == "ñ".encode()
    with pytest.raises(FileNotFoundError):
        atomic.write_bytes(tmp_path / "nowhere" / "out", b"new", parents=False)
    assert files(tmp_path) == ["new"]


@writers
@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_and_its_file_is_replaced(write, exists, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    if exists:
        (tmp_path / "models" / "first").write_bytes(b"old")
    (tmp_path / "latest").symlink_to("models/first")
    write(tmp_path / "latest")
    assert (tmp_path / "latest").is_symlink()
    assert (tmp_path / "models" / "first").read_bytes() not in (b"", b"old")
    assert files(tmp_path) == ["latest", "models"]
    assert files(tmp_path / "models") == ["first"]


@writers
@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can make a link of somebody else"
)
def test_a_link_of_somebody_else_is_replaced(write, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "out").symlink_to(victim)
    os.lchown(tmp_path / "out", 65534, 65534)
    write(tmp_path / "out")
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / "out").is_symlink()


def test_a_circle_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        atomic.write_bytes(tmp_path / "a", b"new")


@writers
@pytest.mark.skipif(os.name == "nt", reason="file modes are POSIX")
def test_a_file_that_is_replaced_keeps_its_mode(write, tmp_path: Path) -> None:
    (tmp_path / "out").touch(0o600)
    write(tmp_path / "out")
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o600


@writers
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes are POSIX")
def test_a_pipe_is_written_to_and_stays(write, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "out")
    with ThreadPoolExecutor(1) as pool:
        received = pool.submit((tmp_path / "out").read_bytes)
        write(tmp_path / "out")
        assert received.result(60)
    assert (tmp_path / "out").is_fifo()
    assert files(tmp_path) == ["out"]
