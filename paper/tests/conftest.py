import os

os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # two test processes share two cores; also for the processes that tests start

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
