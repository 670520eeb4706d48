"""Seed random numbers by names instead of history, so that a resumed run draws the same numbers."""

import hashlib

import torch


def generator(seed: int, *names: object) -> torch.Generator:
    """Return the generator of ``(seed, *names)``, for example of ``(0, "vadam-M8", block)``."""
    digest = hashlib.sha256("/".join(map(str, (seed, *names))).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
