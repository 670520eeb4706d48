"""First weights from a seed: the default generator comes back, and threads do not draw from each other's seeds."""

import time
from concurrent.futures import ThreadPoolExecutor

import torch

from vadam.seeding import seeded


def test_threads_draw_from_their_own_seed_and_the_generator_comes_back() -> None:
    def draw(seed: int) -> torch.Tensor:
        with seeded(seed):
            first = torch.rand(3)
            time.sleep(1e-3)  # another thread has its turn
            return torch.cat([first, torch.rand(3)])

    before = torch.get_rng_state()
    alone = [torch.rand(6, generator=torch.Generator().manual_seed(seed)) for seed in range(12)]
    with ThreadPoolExecutor(4) as threads:
        together = [*threads.map(draw, range(12))]
    assert all(map(torch.equal, alone, together))
    assert torch.equal(torch.get_rng_state(), before)
