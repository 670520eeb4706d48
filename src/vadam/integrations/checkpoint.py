"""Distributed checkpoints with ``torch.distributed.checkpoint``: DDP, FSDP2 and single processes load each other's.

    folder/step-00000012/   model and optimizer state by name, the random states of every rank, and the caller's extras

Resuming on the same number of ranks is bit-exact. On more than two ranks DDP itself adds the gradients of its first step
in another order than those of later steps, which rounds differently, with torch's own optimizers too. On another number
of ranks mean, precision and all other state are equal bit for bit. The noise is new, because it belongs to the shards
(FSDP2) or the ranks (DDP), and independent between them. A checkpoint is written to a temporary folder and then moved,
so that a folder named after a step is complete, even if a rank dies. Loading runs no code from the files
(``checkpoint_reader``).
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
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from vadam.integrations.checkpoint_reader import CheckedPlanner, CheckedReader, UnsafeCheckpoint, size_on_disk
from vadam.optim import VariationalOptimizer


def save(
    folder: str | os.PathLike[str],
    model: nn.Module,
    opt: VariationalOptimizer,
    *,
    step: int,
    extra: dict[str, Any] | None = None,
) -> Path:
    """Write a checkpoint, on all ranks together, and return its path.

    ``extra`` holds JSON values, the same on every rank.
    """
    path = _checkpoint_path(folder, step)
    writing = path.with_name(f".writing-{path.name}")
    _by_the_first_rank(lambda: _prepare_folder(path, writing))
    with _hidden_gradients(opt):
        weights, state = get_state_dict(model, opt)
    content = {
        "model": weights,
        "optimizer": state,
        "random": {str(_rank()): _random_states(opt)},
        "extra": _packed(step, extra),
    }
    with _without_torch_warnings():
        dcp.save(content, checkpoint_id=writing)
    _by_the_first_rank(lambda: os.replace(writing, path))
    return path


def load(path: str | os.PathLike[str], model: nn.Module, opt: VariationalOptimizer) -> dict[str, Any]:
    """Restore model and optimizer, on all ranks together; return the saved ``extra`` with the ``step``.

    Raises ``UnsafeCheckpoint``, a ValueError, if the files contain more than tensors, numbers and text.
    """
    reader = CheckedReader(path)
    saved = reader.read_metadata().state_dict_metadata
    ranks = len({name.split(".")[1] for name in saved if name.startswith("random.")})
    with _hidden_gradients(opt):
        weights, state = get_state_dict(model, opt)
    random = _random_states(opt)
    announced = saved["extra"].size.numel()  # type: ignore[union-attr]
    if announced > size_on_disk(Path(path)):
        raise UnsafeCheckpoint(
            f"the checkpoint {str(path)!r} is damaged: it announces {announced} bytes of extras and has fewer. Load an earlier one"
        )
    extra = torch.empty(announced, dtype=torch.uint8)
    content = {"model": weights, "optimizer": state, "random": {str(_rank() % ranks): random}, "extra": extra}
    try:
        with _without_torch_warnings():
            dcp.load(content, storage_reader=reader, planner=CheckedPlanner())
    except CheckpointException as failed:
        causes = [cause for cause, _ in failed.failures.values() if isinstance(cause, UnsafeCheckpoint)]
        raise (causes[0] if causes else failed) from None
    with _hidden_gradients(opt):
        set_state_dict(model, opt, model_state_dict=weights, optim_state_dict=state)
    torch.default_generator.set_state(random["torch"])
    if opt.generator is not None:
        opt.generator.set_state(random["optimizer"])
    opt.skipped_steps = int(random["skipped_steps"])
    return json.loads(bytes(extra.tolist()))


def latest(folder: str | os.PathLike[str]) -> Path | None:
    """Return the newest complete checkpoint, or None."""
    whole = [path.parent for path in Path(folder).glob("step-*/.metadata") if _step_of(path.parent).isdecimal()]
    return max(whole, key=lambda path: int(_step_of(path)), default=None)


def _step_of(path: Path) -> str:
    return path.name.removeprefix("step-")


@contextmanager
def explain_lost_ranks(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Add to a communication error which rank saw it and which checkpoint to resume from; wrap the training loop in it.

    A rank waits for one that does not answer as long as ``init_process_group(timeout=...)`` says. A dead rank is
    noticed at once.
    """
    try:
        yield
    except RuntimeError as error:  # gloo raises plain RuntimeErrors
        if dist.is_initialized() and any(sign in str(error).lower() for sign in _LOST_CONTACT):
            found = latest(folder)
            advice = f"restart all ranks to resume from {str(found)!r}" if found else "there is no checkpoint yet"
            error.add_note(
                f"Rank {dist.get_rank()} of {dist.get_world_size()} has lost contact with another rank: {advice}."
            )
        raise


_LOST_CONTACT = ("by peer", "timed out", "timeout", "broken pipe", "nccl")


def _checkpoint_path(folder: str | os.PathLike[str], step: int) -> Path:
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise ValueError(f"step must be an integer, at least 0, got {step!r}")
    return Path(folder) / f"step-{step:08d}"


def _prepare_folder(path: Path, writing: Path) -> None:
    if path.exists():
        raise FileExistsError(f"the checkpoint {str(path)!r} already exists: delete it, or save to another folder")
    shutil.rmtree(writing, ignore_errors=True)  # left by a run that was killed while writing


@contextmanager
def _hidden_gradients(opt: VariationalOptimizer) -> Iterator[None]:
    """Take the gradients away for a moment: torch neither creates nor loads the state of an optimizer whose weights have some."""
    grads = [(p, p.grad) for group in opt.param_groups for p in group["params"]]
    try:
        for p, _ in grads:
            p.grad = None
        yield
    finally:
        for p, grad in grads:
            p.grad = grad


def _random_states(opt: VariationalOptimizer) -> dict[str, Tensor]:
    """Return the random states of this rank: torch's generator, the optimizer's own, and its skipped steps."""
    own = torch.default_generator if opt.generator is None else opt.generator
    states = {"torch": torch.default_generator.get_state(), "optimizer": own.get_state()}
    return states | {"skipped_steps": torch.tensor(opt.skipped_steps)}


def _packed(step: int, extra: dict[str, Any] | None) -> Tensor:
    return torch.tensor(list(json.dumps({**(extra or {}), "step": step}).encode()), dtype=torch.uint8)


def _rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def _by_the_first_rank(act: Any) -> None:
    """Run ``act`` on rank 0 while the others wait; raise its OSError on all ranks."""
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
def _without_torch_warnings() -> Iterator[None]:
    """Silence torch's warnings about a checkpoint of a single process, and those of torch 2.6 about its own storages."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is (disabled|unavailable)")
        warnings.filterwarnings("ignore", message="TypedStorage is deprecated")
        yield
