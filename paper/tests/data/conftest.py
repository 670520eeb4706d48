"""Every test starts with an empty cache and no data folder; those that need published files ask for ``published``."""

import os
from pathlib import Path

import pytest

DATA_FOLDER = os.environ.get("VADAM_DATA")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("VADAM_DATA", raising=False)
    monkeypatch.setenv("VADAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "cache"


@pytest.fixture
def published():
    """Return the path of a file in the folder of published data; skip if it is absent."""

    def path(name: str) -> Path:
        if not DATA_FOLDER:
            pytest.skip("VADAM_DATA is not set")
        file = Path(DATA_FOLDER) / name
        if not file.exists():
            pytest.skip(f"{file} is absent")
        return file

    return path
