"""Posteriors on disk: what comes back is what was saved, and nothing in a file is ever executed."""

import hashlib
import json
import os
import pickle
import re
import struct

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from safetensors.torch import save as serialized
from torch import nn

from vadam.gaussian import FullGaussian, MeanFieldGaussian, Mixture, RotatedGaussian
from vadam.persist import SHA256, VERSION, load, save, sealed
from vadam.prediction import predict


def mean_field(seed=0):
    torch.manual_seed(seed)
    mean = {"z.weight": torch.randn(3, 2), "a": torch.randn(4).double(), "half": torch.randn(2).bfloat16()}
    return MeanFieldGaussian(
        mean,
        {name: torch.rand(value.shape).to(value.dtype) + 0.5 for name, value in mean.items()},
        point={"bn.weight": torch.ones(5), "count": torch.tensor(7)},
        prior_precision={"z.weight": 0.1, "a": torch.tensor([1.0, 2.0, 3.0, 4.0]).double(), "half": 3},
    )


def full():
    shapes = {"b": torch.Size([2]), "a": torch.Size([])}
    precision = torch.tensor([[2.0, 0.5, 0.1], [0.5, 3.0, 0.2], [0.1, 0.2, 1.0]]).double()
    return FullGaussian(torch.randn(3).double(), precision, shapes, prior_precision={"a": 1 / 3, "b": torch.ones(1)})


def rotated():
    torch.manual_seed(3)
    mean = {"z.weight": torch.randn(3, 2), "a": torch.randn(4).double()}
    axes = {"z.weight": torch.linalg.qr(torch.randn(3, 3))[0]}
    return RotatedGaussian(
        mean,
        {name: torch.rand(value.shape).to(value.dtype) + 0.5 for name, value in mean.items()},
        left=axes,
        right={"z.weight": torch.linalg.qr(torch.randn(2, 2))[0]},
        point={"count": torch.tensor(7)},
        prior_precision={"z.weight": 0.1, "a": 2.0},
    )


def rotated_by_many_axes():
    """Axes as ``torch.linalg.qr`` returns them, column by column."""
    torch.manual_seed(4)
    left, right = (torch.linalg.qr(torch.randn(n, n).double())[0] for n in (4, 6))
    mean = {"w": torch.randn(4, 6).double()}
    return RotatedGaussian(mean, {"w": torch.rand(4, 6).double() + 0.5}, left={"w": left}, right={"w": right})


POSTERIORS = {
    "rotated": rotated,
    "rotated by many axes": rotated_by_many_axes,
    "mixture of kinds": lambda: Mixture([rotated(), RotatedGaussian.of(rotated().marginals())]),
    "mean-field": mean_field,
    "no prior": lambda: MeanFieldGaussian({"w": torch.zeros(2)}, {"w": torch.ones(2)}),
    "strided": lambda: MeanFieldGaussian({"w": torch.randn(4, 3).T}, {"w": torch.ones(3, 4)}),
    "points only": lambda: MeanFieldGaussian({}, {}, point={"w": torch.ones(2)}),
    "full": full,
    "mixture": lambda: Mixture([mean_field(0), mean_field(1)]),
    "mixture of one thing": lambda: Mixture([full()] * 3),
}


def assert_same(a, b):
    assert type(a) is type(b)
    if isinstance(a, Mixture):
        for x, y in zip(a.components, b.components, strict=True):
            assert_same(x, y)
        return
    one, two = (p.sample(3, generator=torch.Generator().manual_seed(0)) for p in (a, b))
    assert list(one) == list(two)  # in this order
    for name in one:
        assert torch.equal(one[name], two[name])
        assert one[name].dtype == two[name].dtype
    if a.prior_precision is None:
        assert b.prior_precision is None
    else:
        assert a.prior_precision.keys() == b.prior_precision.keys()
        assert all(bool(torch.as_tensor(a.prior_precision[n] == b.prior_precision[n]).all()) for n in a.prior_precision)
        assert torch.equal(a.kl(), b.kl())


@pytest.mark.parametrize("kind", POSTERIORS)
def test_round_trip(kind, tmp_path):
    post = POSTERIORS[kind]()
    config = {"lr": 1e-3, "layers": [50, 50], "note": "naïve", "nested": {"x": None}}
    save(tmp_path / "post.safetensors", post, config=config)
    saved = load(str(tmp_path / "post.safetensors"))
    assert_same(post, saved.posterior)
    assert saved.config == config
    again, settings = saved
    assert again is saved.posterior
    assert settings is saved.config
    assert [p.name for p in tmp_path.iterdir()] == ["post.safetensors"]


def test_a_config_that_could_not_be_read_again_is_refused(tmp_path):
    with pytest.raises(TypeError, match="config must be a dict of JSON values, got a list"):
        save(tmp_path / "post", mean_field(), config=[1])
    assert not (tmp_path / "post").exists()


def test_without_a_config_it_is_empty(tmp_path):
    save(tmp_path / "post", full())
    assert load(tmp_path / "post").config == {}


def test_predictions_after_loading_are_the_same(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    mean = {name: p.detach() for name, p in model.named_parameters()}
    post = MeanFieldGaussian(mean, {name: torch.full_like(p, 9.0) for name, p in mean.items()})
    save(tmp_path / "post", post)
    x = torch.randn(5, 3)
    one, two = (
        predict(model, p, x, 10, generator=torch.Generator().manual_seed(3)).samples
        for p in (post, load(tmp_path / "post").posterior)
    )
    assert torch.equal(one, two)


def test_the_file_is_plain_safetensors_with_a_json_header(tmp_path):
    save(tmp_path / "post", mean_field(), config={"seed": 1})
    tensors = load_file(tmp_path / "post")
    assert torch.equal(tensors["mean/a"], mean_field().mean["a"])
    raw = (tmp_path / "post").read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(json.loads(raw[8 : 8 + length])["__metadata__"]["vadam"])
    assert header["version"] == VERSION
    assert header["kind"] == "mean_field"
    assert header["names"] == ["z.weight", "a", "half"]
    assert header["prior_precision"] == {"z.weight": 0.1, "a": None, "half": 3.0}
    assert header["dtype"] == ["bfloat16", "float32", "float64", "int64"]
    assert header["config"] == {"seed": 1}


def test_a_loaded_posterior_does_not_hang_on_its_file(tmp_path):
    save(tmp_path / "post", mean_field(0))
    first = load(tmp_path / "post").posterior
    save(tmp_path / "post", mean_field(1))
    assert_same(first, mean_field(0))
    assert_same(load(tmp_path / "post").posterior, mean_field(1))


class Bomb:
    """An object that reports when it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("a pickle was executed",)


def rewritten(path, **changes):
    header = {"version": VERSION, "kind": "mean_field", "names": ["w"], "point": []}
    header |= {"prior_precision": None, "prior_mean": None, "pruned": [], "shares": {}}
    written(path, json.dumps(header | {"config": {}} | changes))


def written(path, header):
    """Write a file with a right checksum, whatever its header says."""
    path.write_bytes(sealed(serialized({"mean/w": torch.ones(1)}, metadata={"vadam": header, **SHA256})))


BAD_FILES = {
    "absent": (lambda p: None, FileNotFoundError, "there is no file"),
    "empty": (lambda p: p.write_bytes(b""), ValueError, "not a safetensors file, or only a part"),
    "text": (lambda p: p.write_text("hello, this is not a posterior at all"), ValueError, "not a safetensors file"),
    "pickle": (lambda p: p.write_bytes(pickle.dumps(Bomb())), ValueError, "not a safetensors file"),
    "checkpoint": (lambda p: torch.save({"bomb": Bomb()}, p), ValueError, "not a safetensors file"),
    "weights": (lambda p: save_file({"w": torch.ones(2)}, p), ValueError, "holds no posterior written by vadam.save"),
    "newer": (
        lambda p: rewritten(p, version=4),
        ValueError,
        "format version 4, this vadam reads version 3: upgrade vadam",
    ),
    "older": (
        lambda p: rewritten(p, version=2),
        ValueError,
        "format version 2, this vadam reads version 3: save the posterior again",
    ),
    "version infinite": (lambda p: rewritten(p, version=float("inf")), ValueError, "damaged: its version is inf"),
    "version in words": (lambda p: rewritten(p, version="2"), ValueError, "damaged: its version is '2'"),
    "deep header": (lambda p: written(p, "[" * 100_000), ValueError, "damaged: RecursionError"),
    "deep mixture": (
        lambda p: written(
            p, '{"version": 3, "config": {}, ' + '"kind": "mixture", "components": [{' * 900 + "}]" * 900 + "}"
        ),
        ValueError,
        "damaged",
    ),
    "header is a list": (lambda p: written(p, "[]"), ValueError, "damaged"),
    "config is a list": (lambda p: rewritten(p, config=[]), ValueError, "damaged"),
    "names are numbers": (lambda p: rewritten(p, names=3), ValueError, "damaged"),
    "huge shapes": (lambda p: rewritten(p, kind="full", shapes={"w": [2**62, 2**62]}), ValueError, "damaged"),
    "no checksum": (
        lambda p: save_file({"w": torch.ones(1)}, p, metadata={"vadam": json.dumps({"version": VERSION})}),
        ValueError,
        "damaged: it has no checksum",
    ),
    "lacks a tensor": (lambda p: rewritten(p), ValueError, "damaged: KeyError('precision/w')"),
    "lacks a field": (lambda p: rewritten(p, kind="full"), ValueError, "damaged: KeyError('shapes')"),
    "unknown kind": (lambda p: rewritten(p, kind="flow"), ValueError, "unknown kind of posterior: 'flow'"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_wrong_files_are_explained(case, tmp_path):
    write, error, message = BAD_FILES[case]
    path = tmp_path / "post.safetensors"
    write(path)
    with pytest.raises(error) as info:
        load(path)
    assert message in str(info.value)
    assert str(path) in str(info.value)


@pytest.mark.parametrize("kept", [4, 100, -1])
def test_truncated_files_are_explained(kept, tmp_path):
    save(tmp_path / "post", mean_field())
    (tmp_path / "part").write_bytes((tmp_path / "post").read_bytes()[:kept])
    with pytest.raises(ValueError, match="only a part of one"):
        load(tmp_path / "part")


SMALL = {
    "mean-field": lambda: MeanFieldGaussian({"w": torch.ones(2)}, {"w": torch.ones(2)}, prior_precision={"w": 1.0}),
    "mixture": lambda: Mixture([MeanFieldGaussian({"w": torch.ones(1)}, {"w": torch.ones(1)})] * 2),
}


@pytest.mark.parametrize("kind", SMALL)
def test_no_byte_can_change_unnoticed(kind, tmp_path):
    """A changed byte is detected also in the header, its padding and the checksum itself."""
    path = tmp_path / "post"
    save(path, SMALL[kind](), config={"note": '"sha256":"' + "0" * 64 + '"'})
    content = path.read_bytes()
    load(path)
    random = torch.Generator().manual_seed(0)
    for place in range(len(content)):
        others = {1, 1 << int(torch.randint(8, (), generator=random)), int(torch.randint(1, 256, (), generator=random))}
        for change in others:
            path.write_bytes(content[:place] + bytes([content[place] ^ change]) + content[place + 1 :])
            with pytest.raises(ValueError, match=re.escape(str(path))):
                load(path)


def test_a_changed_byte_is_named_as_the_reason(tmp_path):
    save(tmp_path / "post", full())
    content = bytearray((tmp_path / "post").read_bytes())
    content[-1] ^= 1
    (tmp_path / "post").write_bytes(content)
    with pytest.raises(ValueError, match="damaged: its content does not match its checksum"):
        load(tmp_path / "post")


def test_the_checksum_is_that_of_the_file_with_zeros_in_its_place(tmp_path):
    save(tmp_path / "post", full())
    content = (tmp_path / "post").read_bytes()
    with safe_open(tmp_path / "post", framework="pt") as file:
        checksum = file.metadata()["sha256"]
    assert hashlib.sha256(content.replace(checksum.encode(), b"0" * 64)).hexdigest() == checksum


def test_a_failed_save_keeps_the_old_file_and_leaves_no_other(tmp_path, monkeypatch):
    save(tmp_path / "post", mean_field(0))

    def disk_full(descriptor):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", disk_full)
    with pytest.raises(OSError, match="disk full"):
        save(tmp_path / "post", mean_field(1))
    assert [p.name for p in tmp_path.iterdir()] == ["post"]
    assert_same(load(tmp_path / "post").posterior, mean_field(0))


def test_what_cannot_be_saved_is_explained(tmp_path):
    with pytest.raises(ValueError, match="JSON values only"):
        save(tmp_path / "post", full(), config={"x": torch.ones(1)})
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="JSON values only"):
        save(tmp_path / "post", full(), config={"x": deep})
    with pytest.raises(TypeError, match="not Linear"):
        save(tmp_path / "post", nn.Linear(1, 1))
    with pytest.raises(FileNotFoundError):
        save(tmp_path / "nowhere" / "post", full())
    assert not list(tmp_path.iterdir())
