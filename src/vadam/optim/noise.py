"""Standard normal noise that depends on a seed and on how the weights are packed, on nothing else.

Block b of piece i of the weights is filled from the stream (i, b) of the seed, tile by tile: position j of a tile of 2h numbers gives
its numbers j and h + j. The numbers do not depend on how many threads fill it, and whoever knows the seed can draw them again: an
estimator that needs ε after the backward pass does not have to keep it.
"""

import threading
from collections.abc import Callable, Iterator
from functools import lru_cache

import torch
from torch import Tensor

from vadam import counter
from vadam.optim.pieces import Piece

BLOCK = 1 << 21  # weights of one stream
TILE = 1 << 12  # weights whose noise is drawn at a time by a native loop: it stays in the nearest cache

Draw = Callable[[Tensor, Tensor, Tensor], None]


def blocks(piece: Piece, seed: int, stream: int, draw: Draw) -> Iterator[tuple[slice, Tensor]]:
    """Independent N(0, 1) numbers for the weights of a piece, block by block; a block is overwritten by the next."""
    size, device = piece.size, piece.params[0].device
    room = _room(min(BLOCK, size + size % 2), piece.dtype, device)
    keys = counter.keys([seed], [(stream << 32) + b for b in range(-(-size // BLOCK))])[:, 0].to(device)
    for key, start in zip(keys, range(0, size, BLOCK), strict=True):
        length = min(BLOCK, size - start)
        whole = length - length % TILE
        end = length + length % 2
        for begin, stop, width in ((0, whole, TILE), (whole, end, end - whole)):
            if begin < stop:
                draw(room[begin:stop].view(-1, 2, width // 2), _positions(device)[begin // 2 : stop // 2], key)
        yield slice(start, start + length), room[:length]


def gaussian_pairs_(pairs: Tensor, position: Tensor, key: Tensor) -> None:
    """ε of tiles [tiles, 2, half], two for each position [tiles * half]."""
    first, second = counter.gaussian_pair(key, position, pairs.dtype)
    pairs[:, 0] = first.view(pairs.shape[0], -1)
    pairs[:, 1] = second.view(pairs.shape[0], -1)


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
