import os
from pathlib import Path

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread():
    """Use one thread: these tensors are small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def data_file():
    """Return the path of a data file, or skip and say where it was searched."""

    def find(name):
        path = Path(os.environ.get("VADAM_DATA", "")) / name
        if "VADAM_DATA" not in os.environ or not path.exists():
            pytest.skip(f"{name} is not in the folder that VADAM_DATA names")
        return path

    return find
