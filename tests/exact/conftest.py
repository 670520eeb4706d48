import os
from pathlib import Path

import pytest


@pytest.fixture
def data_file():
    """Return the path of a data file, or skip and say where it was searched."""

    def find(name):
        path = Path(os.environ.get("VADAM_DATA", "")) / name
        if "VADAM_DATA" not in os.environ or not path.exists():
            pytest.skip(f"{name} is not in the folder that VADAM_DATA names")
        return path

    return find
