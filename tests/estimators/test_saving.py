"""Saved estimators: a file says which one it is and what it was fitted with, and can say nothing else."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from safetensors.torch import save as serialized
from sklearn.datasets import load_iris

from estimators.line import line
from vadam import ensemble, persist
from vadam.estimators import VadamClassifier, VadamRegressor

QUICK = {"tune": False, "random_state": 0, "epochs": 1, "members": 2, "hidden": (3,)}


@pytest.fixture(scope="module")
def regressor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "regressor.safetensors"
    VadamRegressor(optimizer=ensemble.Method("vadam", lr=0.02), **QUICK).fit(*line(20)).save(path)
    return path


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "classifier.safetensors"
    X, y = load_iris(return_X_y=True, as_frame=True)
    VadamClassifier(**QUICK).fit(X, y).save(path)
    return path


def edited(path: Path, out: Path, *keys: Any, value: Any) -> Path:
    """Write a copy with another value in its config and a right checksum."""
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["vadam"])
    *outer, last = keys
    place = header["config"]
    for key in outer:
        place = place[key]
    place[last] = value
    metadata = {"vadam": json.dumps(header), **persist.SHA256}
    out.write_bytes(persist.sealed(serialized(load_file(path), metadata=metadata)))
    return out


def test_an_edited_file_loads_where_the_edit_is_harmless(regressor: Path, tmp_path: Path) -> None:
    model = VadamRegressor.load(edited(regressor, tmp_path / "m", "params", "epochs", value=7))
    assert model.epochs == 7
    assert model.optimizer == ensemble.Method("vadam", lr=0.02)


METHOD = {"lr": 0.1}
EDITS = {
    "name of no method": ("params", "optimizer", {"name": "__init__", **METHOD}),
    "name of another function": ("params", "optimizer", {"name": "train"}),
    "name of a module": ("params", "optimizer", {"name": "binding"}),
    "name that is no text": ("params", "optimizer", {"name": ["vadam"]}),
    "unknown argument of a method": ("params", "optimizer", {"name": "vadam", "more": 1}),
    "method without a name": ("params", "optimizer", METHOD),
    "unknown argument": ("params", "more", 1),
    "argument that is not valid": ("params", "predict_samples", "many"),
    "params of another kind": ("params", 3),
    "sizes larger than the tensors": ("sizes", [1_000_000, 1_000_000, 1]),
    "sizes beyond any memory": ("sizes", [2**62, 2**62, 1]),
    "more layers than the tensors": ("sizes", [1, 3, 3, 1]),
    "fewer layers than the tensors": ("sizes", [1, 1]),
    "no sizes": ("sizes", []),
    "negative sizes": ("sizes", [1, -3, 1]),
    "sizes in words": ("sizes", ["1", "3", "1"]),
    "scaling of another size": ("scaling", [[0.0] * 5, [1.0] * 5, [0.0], [1.0]]),
    "scaling in words": ("scaling", [["a"], ["b"], ["c"], ["d"]]),
    "scaling without text": ("scaling", 0, [""]),
    "scaling without end": ("scaling", 0, [float("inf")]),
    "quantiles of another number": ("found", "encoder", "columns", 0, "quantiles", [0.0] * 20),
    "a category without a share": ("found", "encoder", "columns", 0, "kind", "category"),
    "noise without a scale": ("found", "noise", "scale", False),
    "noise without a variance": ("found", "noise", "dof", 1.0),
    "seeds of more members": ("seeds", [0] * 1000),
    "seeds that are no numbers": ("seeds", [None, None]),
    "quantiles that are no numbers": ("found", "encoder", "columns", 0, "quantiles", [None, 1.0]),
    "unknown field of a column": ("found", "encoder", "columns", 0, "more", 1),
    "likelihood of a classifier": ("likelihood", "categorical"),
    "likelihood of no name": ("likelihood", "__init__"),
    "activation of no name": ("params", "activation", "__init__"),
    "features that the network has not": ("found", "n_features_in_", 4),
    "names of more features": ("feature_names", ["a", "b"]),
    "names that are no texts": ("feature_names", [[[["a"]]]] * 3),
    "names that are no list": ("feature_names", "abc"),
    "noise in words": ("noise_precision", "loud"),
    "noise without end": ("noise_precision", [[]]),
}


@pytest.mark.parametrize("case", EDITS)
def test_other_values_are_refused(case: str, regressor: Path, tmp_path: Path) -> None:
    *keys, value = EDITS[case]
    path = edited(regressor, tmp_path / "m", *keys, value=value)
    with pytest.raises(ValueError, match=r"'.*m' is damaged: "):
        VadamRegressor.load(path)


def test_an_unknown_method_is_answered_with_the_known_ones(regressor: Path, tmp_path: Path) -> None:
    path = edited(regressor, tmp_path / "m", "params", "optimizer", "name", value="__init__")
    with pytest.raises(ValueError, match=r"unknown method '__init__': choose one of .*'vadam'"):
        VadamRegressor.load(path)


def test_nothing_is_allocated_by_what_the_header_says(regressor: Path, tmp_path: Path) -> None:
    path = edited(regressor, tmp_path / "m", "sizes", value=[30_000, 30_000, 1])  # 3.6 GB
    largest = []

    class Watching(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            made = function(*arguments, **(options or {}))
            if isinstance(made, torch.Tensor) and made.device.type != "meta":
                largest.append(made.numel())
            return made

    with Watching(), pytest.raises(ValueError, match="damaged"):
        VadamRegressor.load(path)
    assert max(largest) < 100


def test_attributes_are_not_set_by_names_from_the_file(regressor: Path, tmp_path: Path) -> None:
    model = VadamRegressor.load(edited(regressor, tmp_path / "m", "found", "predict", value="owned"))
    assert callable(model.predict)


@pytest.mark.parametrize("temperature", [0.0, False, -1.0, float("nan")])
def test_an_impossible_temperature_is_refused(temperature: Any, classifier: Path, tmp_path: Path) -> None:
    path = edited(classifier, tmp_path / "m", "found", "logit_temperature", value=temperature)
    with pytest.raises(ValueError, match=r"'.*m' is damaged: the temperature of the logits must be in"):
        VadamClassifier.load(path)


@pytest.mark.parametrize("classes", [[0, 1], [0, 1, 2, 3], [[0], [1, 2], [3]], None])
def test_classes_that_the_network_has_not_are_refused(classes: Any, classifier: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is damaged"):
        VadamClassifier.load(edited(classifier, tmp_path / "m", "classes", value=classes))


def test_bytes_that_changed_are_refused(regressor: Path, tmp_path: Path) -> None:
    content, random, path = regressor.read_bytes(), np.random.default_rng(0), tmp_path / "m"
    for place in random.integers(len(content), size=300):
        change = int(random.integers(1, 256))
        path.write_bytes(content[:place] + bytes([content[place] ^ change]) + content[place + 1 :])
        with pytest.raises(ValueError, match="m' "):
            VadamRegressor.load(path)


def test_loading_draws_no_random_numbers(regressor: Path) -> None:
    before = torch.get_rng_state()
    VadamRegressor.load(regressor)
    assert torch.equal(before, torch.get_rng_state())


class Mine(ensemble.Method):
    """A method that vadam.ensemble does not have."""


def test_a_method_that_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    model = VadamRegressor(optimizer=Mine("vadam"), **QUICK).fit(*line(20))
    with pytest.raises(ValueError, match=r"Mine is not a vadam.ensemble.Method"):
        model.save(tmp_path / "m")
