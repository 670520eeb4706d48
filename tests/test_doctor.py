"""``vadam doctor``: what it finds, what it says is missing, without vadam-paper too."""

import ast
import json
import re
import tomllib
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from vadam import backends
from vadam.cli import doctor
from vadam.cli.app import app

ROOT = Path(__file__).parents[1]
FOR_DEVELOPERS = {"all", "docs", "dev", "bench", "coverage", "release", "notebooks"}


def declared() -> dict[str, list[str]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_every_extra_says_what_it_unlocks() -> None:
    assert set(doctor.EXTRAS) == set(declared()) - FOR_DEVELOPERS


def test_json_has_versions_backend_devices_and_threads() -> None:
    found = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)
    assert found["packages"]["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert found["backend"]["auto"] == ("native" if backends.has_native() else "plain")
    assert found["devices"]["cuda"] == [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    assert found["threads"]["torch"] == torch.get_num_threads()
    assert set(found["extras"]) == set(doctor.EXTRAS)


def test_a_missing_extra_names_its_packages_and_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        doctor, "requires", lambda name: ["torch", "matplotlib>=3.8; extra == 'plot'", 'no-such>=1; extra == "tune"']
    )
    text = CliRunner().invoke(app, ["doctor"]).stdout
    assert re.search(r'tune\s+missing no-such: pip install "vadam\[tune\]" for the search', text)
    assert re.search(r"plot\s+installed: figures", text)


def test_without_the_paper_and_llvmlite_it_advises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    monkeypatch.setattr(doctor, "version", _only_torch)
    monkeypatch.setattr(backends, "has_native", lambda: False)
    text = CliRunner().invoke(app, ["doctor"]).stdout
    assert "paper      not installed" in text
    assert "pip install ./paper" in text
    assert "backend    plain: llvmlite cannot be imported" in text


def _only_torch(name: str) -> str:
    if name != "torch":
        raise doctor.PackageNotFoundError(name)
    return "2.4"


def test_folders_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VADAM_DATA", str(tmp_path))
    monkeypatch.setenv("VADAM_CACHE", str(tmp_path / "none"))
    folders = doctor.examine()["folders"]
    assert folders["VADAM_DATA"] == {"path": str(tmp_path), "exists": True}
    assert folders["cache"] == {"path": str(tmp_path / "none"), "exists": False}


def test_a_release_tries_every_extra() -> None:
    program = (ROOT / ".ci" / "check_release.py").read_text()
    tried = next(
        ast.literal_eval(node.value)
        for node in ast.parse(program).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EXTRAS"
    )
    assert set(tried) == set(doctor.EXTRAS)
