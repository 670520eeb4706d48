"""Standard normal noise that depends on a seed and on how the weights are packed, on nothing else.

Block b of piece i of the weights is filled from the stream (i, b) of the seed. The numbers do not depend on how many threads
fill it, and whoever knows the seed can draw them again: an estimator that needs ε after the backward pass does not have to keep it.
"""

import threading
from collections.abc import Iterator
from functools import lru_cache

import torch
from torch import Tensor

from vadam import counter
from vadam.optim import fast_noise
from vadam.optim.kernels import Chunked, Compiled, gaussian_
from vadam.optim.pieces import Piece

BLOCK = 1 << 21  # weights whose noise is drawn at a time: few calls, and it stays in the cache until it is used


def blocks(piece: Piece, seed: int, stream: int, run: Chunked | Compiled) -> Iterator[tuple[slice, Tensor]]:
    """Independent N(0, 1) numbers for the weights of a piece, block by block; a block is overwritten by the next.

    Where arithmetic is compiled they are drawn by numba, if there is one.
    """
    size, dtype, device = piece.size, piece.dtype, piece.params[0].device
    fast = isinstance(run, Compiled) and dtype == torch.float32 and device.type == "cpu" and fast_noise.available()
    room = _room(min(BLOCK, size + size % 2), dtype, device)
    keys = counter.keys([seed], [(stream << 32) + b for b in range(-(-size // BLOCK))])[:, 0].to(device)
    for key, start in zip(keys, range(0, size, BLOCK), strict=True):
        length = min(BLOCK, size - start)
        half = (length + 1) // 2
        if fast:
            fast_noise.fill(room[:half], room[half : 2 * half], key)
        else:
            run(gaussian_, None, [_positions(device)[:half], room[:half], room[half : 2 * half]], key)
        yield slice(start, start + length), room[:length]


class _Rooms(threading.local):
    def __init__(self) -> None:
        self.of: dict[tuple[torch.dtype, torch.device], Tensor] = {}


_rooms = _Rooms()


def _room(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Scratch memory of this thread, at most a block: large memory that is freed and allocated again costs page faults."""
    room = _rooms.of.get((dtype, device))
    if room is None or len(room) < size:
        room = _rooms.of[dtype, device] = torch.empty(size, dtype=dtype, device=device)
    return room[:size]


@lru_cache(maxsize=8)
def _positions(device: torch.device) -> Tensor:
    return torch.arange(BLOCK // 2, dtype=torch.int32, device=device)


def draw_seed(generator: torch.Generator | None) -> int:
    """A seed for one sample of all weights, from ``generator`` or from torch's default one."""
    device = "cpu" if generator is None else generator.device
    return int(torch.randint(1 << 62, (), generator=generator, device=device))
