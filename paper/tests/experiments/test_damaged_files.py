"""Damaged manifests, rows and checkpoints are named, with what to do; no command ends in a traceback."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from vadam.cli.app import app
from vadam_paper.experiments import ExperimentError, find
from vadam_paper.experiments.context import CellContext, checkpoint_path

DEEP = "[" * 100_000


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "1000"})


def refused(*arguments: object) -> str:
    result = call(*arguments, "--json")
    assert result.exit_code == 1, (result.output, result.exception)
    said: str = json.loads(result.stdout)["error"]
    return said


RUN = ("run", "theory", "--preset", "smoke", "--jobs", 1, "--out")
MANIFESTS = {
    "text": "hello",
    "cut": '{"experiment": ',
    "deep": DEEP,
    "list": "[]",
    "number": "3",
    "empty object": "{}",
    "bytes": b"\xff\xff",
    "numbers without end": '{"config_hash": Infinity}',
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("recorded")
    assert call(*RUN, root).exit_code == 0
    return root


@pytest.fixture
def results(recorded: Path, tmp_path: Path) -> Path:
    """Return a finished run, to be damaged."""
    return Path(shutil.copytree(recorded, tmp_path / "results"))


@pytest.mark.parametrize(("field", "value"), [("versions", {}), ("cpu_seconds", float("inf")), ("seconds", -1)])
def test_a_manifest_with_an_impossible_value_is_named(field: str, value: object, results: Path, tmp_path: Path) -> None:
    path = results / "theory" / "smoke-text" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), field: value}))
    assert f"{path} is damaged" in refused("report", "--results", results, "--out", tmp_path)


@pytest.mark.parametrize(("field", "value"), [("commit", 7), ("commit", ["a"]), ("seconds", "a")])
def test_a_row_with_a_value_of_another_type_is_named(field: str, value: object, results: Path, tmp_path: Path) -> None:
    path = results / "theory" / "smoke-text" / "rows.jsonl"
    first, *others = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps({**json.loads(first), field: value}), *others[1:], ""]))
    for command in (("report", "--results", results, "--out", tmp_path), (*RUN, results)):
        assert f"Line 1 of {path}" in refused(*command)


@pytest.mark.parametrize("case", MANIFESTS)
def test_a_damaged_manifest_is_named(case: str, results: Path, tmp_path: Path) -> None:
    path, content = results / "theory" / "smoke-text" / "manifest.json", MANIFESTS[case]
    intact = path.read_bytes()
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for command in (
        (*RUN, results),
        ("list", "--results", results),
        ("report", "--results", results, "--out", tmp_path),
    ):
        said = refused(*command)
        assert f"{path} is damaged" in said
        assert "Delete it" in said
    path.unlink()
    assert call(*RUN, results).exit_code == 0
    assert json.loads(path.read_bytes())["config_hash"] == json.loads(intact)["config_hash"]


@pytest.mark.parametrize("field", ["config", "config_hash", "preset", "protocol", "seconds", "cpu_seconds", "versions"])
def test_a_manifest_with_another_kind_of_value_is_named(field: str, results: Path, tmp_path: Path) -> None:
    path = results / "theory" / "smoke-text" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: None}))
    assert f"{path} is damaged: {field} is None" in refused("report", "--results", results, "--out", tmp_path)


def test_a_damaged_manifest_does_not_stop_a_fresh_start(results: Path) -> None:
    (results / "theory" / "smoke-text" / "manifest.json").write_text(DEEP)
    assert call(*RUN, results, "--no-resume").exit_code == 0


@pytest.mark.parametrize("line", ["hello", DEEP, "[]", "3", "{}", '{"config": "{hash}", "cell": "a"}'])
def test_a_damaged_row_is_named(line: str, results: Path) -> None:
    folder = results / "theory" / "smoke-text"
    rows, manifest = folder / "rows.jsonl", json.loads((folder / "manifest.json").read_text())
    rows.write_bytes(line.replace("{hash}", manifest["config_hash"]).encode() + b"\n" + rows.read_bytes())
    for command in ((*RUN, results), ("list", "--results", results)):
        assert f"Line 1 of {rows}" in refused(*command)


@pytest.mark.parametrize("content", [b"", b"hello" * 10, b"\x02" + bytes(7) + b"{}"])
def test_a_damaged_checkpoint_is_named(content: bytes, tmp_path: Path) -> None:
    path = checkpoint_path(tmp_path, "cell")
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(ExperimentError, match=r"The checkpoint .*cell.safetensors is damaged .*Delete it"):
        CellContext(find("theory").config("smoke", "text"), "cell", tmp_path).restore()


@pytest.mark.parametrize("result", [None, {}, [], "x", {"runs": None}])
def test_a_row_without_its_numbers_is_named_by_the_report(result: object, results: Path, tmp_path: Path) -> None:
    path = results / "theory" / "smoke-text" / "rows.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(row | {"result": result}) + "\n" for row in rows))
    said = refused("report", "--results", results, "--out", tmp_path)
    assert "The recorded results of theory cannot be read" in said
