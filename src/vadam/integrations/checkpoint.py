"""Checkpoints of training on many ranks, by ``torch.distributed.checkpoint``: DDP, FSDP2 or one process, each loads what another saved.

    folder/step-00000012/   model and optimizer state by name, the random states of every rank, and what the caller adds

Resuming on as many ranks is bit-exact. On another number of ranks mean, precision and every other number of the state are the
same, bit for bit; the noise is new, since it belongs to the shards (FSDP2) or to the ranks (DDP), and independent between them.

A checkpoint is written beside its place and then moved there, so that one with the name of a step is whole, whatever happens to a rank.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from vadam.optim import VariationalOptimizer


def save(
    folder: str | os.PathLike[str],
    model: nn.Module,
    opt: VariationalOptimizer,
    *,
    step: int,
    extra: dict[str, Any] | None = None,
) -> Path:
    """Write a checkpoint, on all ranks together, and return its path. ``extra`` holds JSON values, the same on every rank."""
    path = _place(folder, step)
    writing = path.with_name(f".writing-{path.name}")
    _by_the_first_rank(lambda: _make_room(path, writing))
    weights, state = get_state_dict(model, opt)
    content = {
        "model": weights,
        "optimizer": state,
        "random": {str(_rank()): _random_states(opt)},
        "extra": _packed(step, extra),
    }
    with _quiet_without_ranks():
        dcp.save(content, checkpoint_id=writing)
    _by_the_first_rank(lambda: os.replace(writing, path))
    return path


def load(path: str | os.PathLike[str], model: nn.Module, opt: VariationalOptimizer) -> dict[str, Any]:
    """Bring model and optimizer to where they were, on all ranks together. Returns the ``extra`` that was saved, and ``step``."""
    saved = dcp.FileSystemReader(path).read_metadata().state_dict_metadata
    ranks = len({name.split(".")[1] for name in saved if name.startswith("random.")})
    weights, state = get_state_dict(model, opt)
    random = _random_states(opt)
    extra = torch.empty(saved["extra"].size, dtype=torch.uint8)  # type: ignore[union-attr]
    content = {"model": weights, "optimizer": state, "random": {str(_rank() % ranks): random}, "extra": extra}
    with _quiet_without_ranks():
        dcp.load(content, checkpoint_id=path)
    set_state_dict(model, opt, model_state_dict=weights, optim_state_dict=state)
    torch.default_generator.set_state(random["torch"])
    if opt.generator is not None:
        opt.generator.set_state(random["optimizer"])
    opt.skipped_steps = int(random["skipped_steps"])
    return json.loads(bytes(extra.tolist()))


def latest(folder: str | os.PathLike[str]) -> Path | None:
    """The newest whole checkpoint; None where there is none."""
    whole = [path.parent for path in Path(folder).glob("step-*/.metadata")]
    return max(whole, key=lambda path: int(path.name.removeprefix("step-")), default=None)


@contextmanager
def explained(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Around the training loop: adds to an error of communication who saw it, and where to go on from.

    How long a rank waits for one that does not answer is ``init_process_group(timeout=...)``; one that has died is noticed at once.
    """
    try:
        yield
    except RuntimeError as error:  # gloo's errors are plain ones
        if dist.is_initialized() and any(sign in str(error).lower() for sign in _LOST_CONTACT):
            found = latest(folder)
            go_on = f"start all ranks again to go on from {str(found)!r}" if found else "there is no checkpoint yet"
            error.add_note(
                f"Rank {dist.get_rank()} of {dist.get_world_size()} has lost contact with another rank: {go_on}."
            )
        raise


_LOST_CONTACT = ("by peer", "timed out", "timeout", "broken pipe", "nccl")


def _place(folder: str | os.PathLike[str], step: int) -> Path:
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise ValueError(f"step={step!r} is not valid: give the number of the step, a whole number from 0")
    return Path(folder) / f"step-{step:08d}"


def _make_room(path: Path, writing: Path) -> None:
    if path.exists():
        raise FileExistsError(f"there is a checkpoint {str(path)!r} already: delete it, or save to another folder")
    shutil.rmtree(writing, ignore_errors=True)  # of a run that was killed while it wrote


def _random_states(opt: VariationalOptimizer) -> dict[str, Tensor]:
    """What the draws of this rank follow: torch's generator, the optimizer's own, and the steps that it has skipped."""
    own = torch.default_generator if opt.generator is None else opt.generator
    states = {"torch": torch.default_generator.get_state(), "optimizer": own.get_state()}
    return states | {"skipped_steps": torch.tensor(opt.skipped_steps)}


def _packed(step: int, extra: dict[str, Any] | None) -> Tensor:
    return torch.tensor(list(json.dumps({**(extra or {}), "step": step}).encode()), dtype=torch.uint8)


def _rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def _by_the_first_rank(act: Any) -> None:
    """``act`` on rank 0 while the others wait; what goes wrong there is raised on all."""
    failure: list[Exception | None] = [None]
    if _rank() == 0:
        try:
            act()
        except OSError as error:
            failure = [error]
    if dist.is_initialized():
        dist.broadcast_object_list(failure)
    if failure[0] is not None:
        raise failure[0]


@contextmanager
def _quiet_without_ranks() -> Iterator[None]:
    """One process is a way to train like another; torch warns of it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        yield
