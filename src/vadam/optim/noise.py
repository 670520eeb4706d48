"""Standard normal noise that depends on a seed and the layout of the weights, on nothing else.

The weights, laid end to end, are cut into blocks of ``BLOCK``; block b is filled from its own stream, seeded by (seed, b). The blocks
are filled on all of torch's threads, in any order, and the numbers do not depend on how many threads there are (on the CPU torch's
generator takes 32 bits of a seed: two blocks in four billion are the same). Whoever knows the
seed can draw the same noise again, so an estimator that needs ε after the backward pass does not have to keep it.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import torch
from torch import Tensor

BLOCK = 1 << 17
_MIX = 0x9E3779B97F4A7C15  # 2⁶⁴ / golden ratio: neighbouring blocks and seeds give unrelated streams


def standard_normal(like: Sequence[Tensor], seed: int) -> list[Tensor]:
    """A tensor of independent N(0, 1) numbers for each of ``like``, of its shape, dtype and device."""
    noise = [torch.empty_like(x, memory_format=torch.contiguous_format) for x in like]
    blocks: list[list[Tensor]] = [[]]
    room = BLOCK
    for x in noise:
        flat = x.view(-1)
        while flat.numel():
            blocks[-1].append(flat[:room])
            flat, room = flat[room:], room - min(room, flat.numel())
            if room == 0:
                blocks.append([])
                room = BLOCK
    fill = [_filler(block, (seed + b * _MIX) % (1 << 63)) for b, block in enumerate(blocks) if block]
    if len(fill) == 1 or torch.get_num_threads() == 1:
        for f in fill:
            f()
    else:
        list(_pool(torch.get_num_threads()).map(lambda f: f(), fill))
    return noise


def _filler(block: list[Tensor], seed: int) -> Callable[[], None]:
    def fill() -> None:
        generators: dict[torch.device, torch.Generator] = {}
        for x in block:
            if x.device not in generators:
                generators[x.device] = torch.Generator(x.device).manual_seed(seed)
            x.normal_(generator=generators[x.device])

    return fill


@lru_cache(maxsize=1)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="vadam-noise")


def draw_seed(generator: torch.Generator | None) -> int:
    """A seed for one sample of all weights, from ``generator`` or from torch's default one."""
    device = "cpu" if generator is None else generator.device
    return int(torch.randint(1 << 62, (), generator=generator, device=device))
