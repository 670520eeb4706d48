"""Seed torch's default generators for a while, from which modules draw their first weights."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_ONE_AT_A_TIME = threading.RLock()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's default generators inside the block, and put them back afterwards; another thread that does so waits."""
    devices = [*range(torch.cuda.device_count())] if torch.cuda.is_initialized() else []
    with _ONE_AT_A_TIME, torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield
