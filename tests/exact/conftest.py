import os
from pathlib import Path

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread():
    """These tensors are small: more threads only get in each other's way."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def data_file():
    """The path of a data set's file, or a skip that says where it was looked for."""

    def find(name):
        path = Path(os.environ.get("VADAM_DATA", "")) / name
        if "VADAM_DATA" not in os.environ or not path.exists():
            pytest.skip(f"{name} is not in the folder that VADAM_DATA names")
        return path

    return find
