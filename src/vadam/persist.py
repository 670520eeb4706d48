"""Save and load posteriors: one safetensors file with a JSON description in its header. Loading never unpickles.

    tensors     mean/<name>  precision/<name>  point/<name>  pruned/<name>  prior_precision/<name> and prior_mean/<name> (tensors)
    header      {"vadam": {"version", "kind", "names" in their order, "point", "pruned", "prior_precision", "prior_mean", "shares",
                           "temperature", "tempered_by", "dtype", "config"}, "sha256"}

A full Gaussian has one tensor ``mean`` and one ``precision``. A rotated one has ``left/<name>`` and ``right/<name>``, its axes,
and no ``pruned``. The tensors of a mixture's component k are under ``k/``. ``sha256`` is the checksum of the whole file with 64 zeros
in its place, so that any changed byte is detected.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load as deserialized
from safetensors.torch import save as serialized
from torch import Tensor

from vadam import atomic
from vadam.gaussian import FullGaussian, MeanFieldGaussian, Mixture, RotatedGaussian, Shares

VERSION = 3
PRIOR = ("prior_precision", "prior_mean")
SHA256 = {"sha256": "0" * 64}
"""Placeholder in the metadata for the checksum, which ``sealed`` fills in."""
DAMAGE = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RuntimeError)
"""Errors that a header with unexpected values can cause; deep nesting causes RecursionError, a RuntimeError."""

Posterior = MeanFieldGaussian | FullGaussian | RotatedGaussian | Mixture


class Saved(NamedTuple):
    """The content of a file: posterior and config."""

    posterior: Posterior
    config: dict[str, Any]


def save(path: str | os.PathLike[str], posterior: Posterior, *, config: dict[str, Any] | None = None) -> None:
    """Write the posterior, and a ``config`` of JSON values, to ``path`` atomically."""
    if not isinstance(posterior, Posterior):
        raise TypeError(
            f"save() writes a MeanFieldGaussian, RotatedGaussian, FullGaussian or Mixture, not {type(posterior).__name__}"
        )
    if not isinstance(config, dict | None):
        raise TypeError(f"config must be a dict of JSON values, got a {type(config).__name__}")
    description, tensors = _packed(posterior)
    dtypes = sorted({str(value.dtype).removeprefix("torch.") for value in tensors.values()})
    try:
        header = json.dumps({"version": VERSION, **description, "dtype": dtypes, "config": config or {}})
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"config must hold JSON values only (text, numbers, lists, dicts): {error}") from error
    metadata = {"vadam": header, **SHA256}
    content = serialized({name: _plain(value) for name, value in tensors.items()}, metadata=metadata)
    atomic.write_bytes(Path(path), sealed(content), parents=False)


def load(path: str | os.PathLike[str], *, device: str | torch.device = "cpu") -> Saved:
    """Read ``(posterior, config)`` from a file written by ``save``; raise ValueError if the file was changed."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}: check the path")
    content = path.read_bytes()
    try:
        tensors = {name: value.to(device) for name, value in deserialized(content).items()}
    except SafetensorError as error:
        raise ValueError(f"{str(path)!r} is not a safetensors file, or only a part of one: {error}") from error
    metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")]).get("__metadata__") or {}
    if "vadam" not in metadata:
        raise ValueError(f"{str(path)!r} is a safetensors file, but holds no posterior written by vadam.save")
    try:
        header = json.loads(metadata["vadam"])
        version = header["version"]
        if type(version) is not int:
            raise ValueError(f"its version is {version!r}")
        if version == VERSION:
            _check_seal(content)
            return Saved(_unpacked(header, tensors), dict(header["config"]))
    except DAMAGE as error:
        raise damaged(path, error) from error
    fix = "upgrade vadam" if version > VERSION else "save the posterior again"
    raise ValueError(f"{str(path)!r} has format version {version}, this vadam reads version {VERSION}: {fix}")


def damaged(path: str | os.PathLike[str], error: Exception) -> ValueError:
    """Return the error for a damaged file, given its cause."""
    reason = error if type(error) is ValueError else repr(error)
    return ValueError(f"{str(path)!r} is damaged: {reason}")


def sealed(content: bytes) -> bytes:
    """Return the content of a file with its checksum in the place of the ``SHA256`` placeholder."""
    start, end = _place_of_checksum(content)
    return content[:start] + _checksum(content, start, end) + content[end:]


def _check_seal(content: bytes) -> None:
    """Raise ValueError unless the checksum matches the content."""
    start, end = _place_of_checksum(content)
    if content[start:end] != _checksum(content, start, end):
        raise ValueError("its content does not match its checksum")


def _checksum(content: bytes, start: int, end: int) -> bytes:
    """Return the checksum of the content with zeros from ``start`` to ``end``."""
    view, found = memoryview(content), hashlib.sha256()
    for part in (view[:start], b"0" * (end - start), view[end:]):
        found.update(part)
    return found.hexdigest().encode()


def _place_of_checksum(content: bytes) -> tuple[int, int]:
    """Return start and end of the checksum; inside a string value the quotes would be escaped."""
    found = re.search(rb'"sha256":"([0-9a-f]{64})"', content)
    if found is None:
        raise ValueError("it has no checksum")
    return found.span(1)


def _packed(post: Posterior, prefix: str = "") -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return a description in JSON values, and the tensors by their names in the file."""
    if isinstance(post, Mixture):
        parts = [_packed(component, f"{prefix}{k}/") for k, component in enumerate(post.components)]
        tensors = {name: value for _, part in parts for name, value in part.items()}
        return {"kind": "mixture", "components": [description for description, _ in parts]}, tensors
    tensors = {f"{prefix}point/{name}": value for name, value in post.point.items()}
    description: dict[str, Any] = {"point": list(post.point)}
    for field in PRIOR:
        values = getattr(post, field)
        given = {} if values is None else values
        tensors |= {f"{prefix}{field}/{name}": x for name, x in given.items() if isinstance(x, Tensor)}
        numbers = {name: None if isinstance(x, Tensor) else float(x) for name, x in given.items()}
        description[field] = None if values is None else numbers
    description |= {"temperature": post.temperature, "tempered_by": post.tempered_by}
    if isinstance(post, FullGaussian):
        tensors |= {f"{prefix}mean": post.mean, f"{prefix}precision": post.precision}
        return {"kind": "full", "shapes": {name: list(s) for name, s in post.shapes.items()}, **description}, tensors
    tensors |= {f"{prefix}mean/{name}": value for name, value in post.mean.items()}
    tensors |= {f"{prefix}precision/{name}": value for name, value in post.precision.items()}
    parts_by_name = ("left", "right") if isinstance(post, RotatedGaussian) else ("pruned",)
    for field in parts_by_name:
        tensors |= {f"{prefix}{field}/{name}": value for name, value in getattr(post, field).items()}
        description[field] = list(getattr(post, field))
    shares = {name: list(part) for name, part in post.shares.items()}
    kind = "rotated" if isinstance(post, RotatedGaussian) else "mean_field"
    return {
        "kind": kind,
        "names": list(post.mean),
        "shares": shares,
        **description,
    }, tensors


def _unpacked(description: dict[str, Any], tensors: dict[str, Tensor], prefix: str = "") -> Posterior:
    """Return the posterior, its names in their original order.

    A generator's draws are assigned to the weights in this order.
    """
    if description["kind"] not in ("mixture", "full", "rotated", "mean_field"):
        raise ValueError(f"unknown kind of posterior: {description['kind']!r}")
    if description["kind"] == "mixture":
        parts = enumerate(description["components"])
        return Mixture([_unpacked(part, tensors, f"{prefix}{k}/") for k, part in parts])  # type: ignore[misc]
    prior: dict[str, Any] = {}
    for field in PRIOR:
        values = description[field]
        prior[field] = values and {
            name: tensors[f"{prefix}{field}/{name}"] if x is None else x for name, x in values.items()
        }
    for field in ("temperature", "tempered_by"):
        prior[field] = {name: float(T) for name, T in description.get(field, {}).items()}
    point = {name: tensors[f"{prefix}point/{name}"] for name in description["point"]}
    if description["kind"] == "full":
        shapes = {name: torch.Size(shape) for name, shape in description["shapes"].items()}
        mean, precision = tensors[f"{prefix}mean"], tensors[f"{prefix}precision"]
        return FullGaussian(mean, precision, shapes, point=point, **prior)
    means = {name: tensors[f"{prefix}mean/{name}"] for name in description["names"]}
    precisions = {name: tensors[f"{prefix}precision/{name}"] for name in description["names"]}
    shares = {name: Shares(*map(float, part)) for name, part in description["shares"].items()}
    fields = ("left", "right") if description["kind"] == "rotated" else ("pruned",)
    others: dict[str, Any] = {
        field: {name: tensors[f"{prefix}{field}/{name}"] for name in description[field]} for field in fields
    }
    if description["kind"] == "rotated":
        return RotatedGaussian(means, precisions, **others, point=point, shares=shares, **prior)
    return MeanFieldGaussian(means, precisions, **others, point=point, shares=shares, **prior)


def _plain(value: Tensor) -> Tensor:
    """Return a contiguous copy that owns its memory, as the format requires."""
    return value.detach().clone(memory_format=torch.contiguous_format)
