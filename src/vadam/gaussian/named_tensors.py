"""Check, copy, draw and sum dictionaries of named tensors, for the posteriors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

Weights = dict[str, Tensor]
Shapes = Mapping[str, torch.Size]
PriorPrecision = dict[str, float | Tensor]
PriorMean = dict[str, float | Tensor]


def shapes_of(weights: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    """Return the shapes by name."""
    return {name: value.shape for name, value in weights.items()}


def copied(values: Any) -> Any:
    """Return copies of the tensors among the values, laid out as a file brings them back; None stays None."""
    return _mapped(lambda t: t.detach().clone(memory_format=torch.contiguous_format), values)


def moved(values: Any, *args: Any, **kwargs: Any) -> Any:
    """Apply ``Tensor.to`` to the tensors among the values; None stays None."""
    return _mapped(lambda t: t.to(*args, **kwargs), values)


def _mapped(f: Callable[[Tensor], Tensor], values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if values is None:
        return None
    return {name: f(value) if isinstance(value, Tensor) else value for name, value in values.items()}


def check_names(what: str, found: Iterable[str], expected: Iterable[str]) -> None:
    """Raise ValueError unless the names are the expected ones."""
    found, expected = set(found), set(expected)
    if missing := sorted(expected - found):
        raise ValueError(f"{what} lacks {missing[0]!r}: it must name {sorted(expected)}")
    if unknown := sorted(found - expected):
        raise ValueError(f"{what} has {unknown[0]!r}, which is not among {sorted(expected)}")


def check_shapes(what: str, weights: Mapping[str, Tensor], shapes: Shapes) -> None:
    """Raise ValueError unless names and shapes are the expected ones."""
    check_names(what, weights, shapes)
    for name, shape in shapes.items():
        if weights[name].shape != shape:
            raise ValueError(f"{what} of {name!r} has shape {list(weights[name].shape)}, but it must be {list(shape)}")


def check_real(**kinds: Mapping[str, Tensor]) -> None:
    """Raise TypeError unless all tensors hold real floating-point numbers: draws would be rounded to integers."""
    for what, weights in kinds.items():
        for name, value in weights.items():
            if not value.is_floating_point():
                raise TypeError(
                    f"the {what} of {name!r} must be floating-point, got {value.dtype}: convert it by .float()"
                )


def check_positive(precision: Mapping[str, Tensor]) -> None:
    """Raise unless all precisions are positive and finite."""
    for name, value in precision.items():
        wrong = value[~((value > 0) & value.isfinite())]
        if len(wrong):
            raise ValueError(f"the precision of {name!r} must be positive and finite, but one is {wrong[0].item()!r}")


def check_points(point: Mapping[str, Tensor], sampled: Iterable[str]) -> None:
    """Raise ValueError if a weight is both sampled and deterministic."""
    if both := sorted(set(point) & set(sampled)):
        raise ValueError(f"{both[0]!r} is both sampled and deterministic: a weight must be one of them")


def check_prior(prior_precision: object, prior_mean: object, shapes: Shapes) -> None:
    """Raise unless the prior's precisions and means are dicts of finite numbers or tensors that broadcast to the weights."""
    for field, values in (("prior_precision", prior_precision), ("prior_mean", prior_mean)):
        if values is None:
            continue
        if not isinstance(values, Mapping):
            raise TypeError(
                f"{field}={values!r} must be a dict from names to numbers: dict.fromkeys(mean, 1.0), or None"
            )
        check_names(field, values, shapes)
        what = field.replace("_", " ")
        for name, value in values.items():
            number = value if isinstance(value, Tensor) else _on_host(float(value))
            if not bool(number.isfinite().all()) or (values is prior_precision and not bool((number >= 0).all())):
                least = " and at least 0" if values is prior_precision else ""
                raise ValueError(f"the {what} of {name!r} must be finite{least}, not {value!r}")
            last_axes = zip(reversed(number.shape), reversed(shapes[name]), strict=False)
            if number.dim() > len(shapes[name]) or any(size not in (1, full) for size, full in last_axes):
                raise ValueError(f"the {what} of {name!r}, {list(number.shape)}, does not fit {list(shapes[name])}")


def check_pruned(pruned: Mapping[str, Tensor], shapes: Shapes) -> None:
    """Raise unless the masks are boolean tensors in the shapes of their weights."""
    for name, mask in pruned.items():
        if name not in shapes or mask.dtype is not torch.bool or mask.shape != shapes[name]:
            raise ValueError(
                f"the mask of pruned weights {name!r} must be boolean and have the shape of a sampled parameter"
            )


def prunes_alike(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    """Return True if two posteriors with these masks have pruned the same weights; a weight without a mask is not pruned."""
    none = torch.zeros((), dtype=torch.bool, device="cpu")
    return all(bool((one.get(name, none).cpu() == other.get(name, none).cpu()).all()) for name in {*one, *other})


def common_prior(priors: Iterable[Any], field: str) -> Any:
    """Return the prior that posteriors share; raise if they differ."""
    first, *others = priors
    for other in others:
        same = (first is None) == (other is None)
        if same and first is not None:
            same = first.keys() == other.keys() and all(
                bool(_on_host(first[name]).eq(_on_host(other[name])).all()) for name in first
            )
        if not same:
            raise ValueError(
                f"merge() takes posteriors of one prior, but their {field} differs: train them with the same"
            )
    return first


def proper(prior_precision: PriorPrecision | None) -> PriorPrecision:
    """Return the prior precisions; raise ValueError unless they define a density."""
    if prior_precision is None:
        raise ValueError("this posterior has no prior: build it with prior_precision, or compare with kl_to(other)")
    for name, value in prior_precision.items():
        if not bool((_on_host(value) > 0).all()):
            raise ValueError(
                f"KL to an improper prior is infinite: the prior precision of {name!r} must be positive, got {value!r}"
            )
    return prior_precision


def _on_host(value: float | Tensor) -> Tensor:
    return torch.as_tensor(value, device="cpu")


def leading(n: int | None) -> tuple[int, ...]:
    """Return the leading axes of n draws."""
    if n is not None and n < 1:
        raise ValueError(f"n must be at least 1, or None for one draw without the extra axis, got {n!r}")
    return () if n is None else (n,)


def standard_normal(shape: tuple[int, ...], *, like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw ε with the dtype and device of ``like``, on the generator's device."""
    device = like.device if generator is None else generator.device
    return torch.randn(shape, dtype=like.dtype, device=device, generator=generator).to(like.device)


def with_points(draws: Weights, point: Weights, lead: tuple[int, ...]) -> Weights:
    """Add the deterministic weights to the draws, expanded to their leading axes."""
    return draws | {name: value.expand((*lead, *value.shape)) for name, value in point.items()}


def flattened(sample: Mapping[str, Tensor], shapes: Shapes, point: Mapping[str, Tensor]) -> Weights:
    """Return the sampled weights of one draw, or of stacked draws, each as a vector on the last axis."""
    check_names("the sample", set(sample) - set(point), shapes)
    vectors = {}
    for name, shape in shapes.items():
        lead = sample[name].shape[: sample[name].dim() - len(shape)]
        if sample[name].shape != (*lead, *shape):
            raise ValueError(
                f"the sample of {name!r} has shape {list(sample[name].shape)}, but it must end in {list(shape)}"
            )
        vectors[name] = wide(sample[name]).reshape(*lead, shape.numel())
    return vectors


def wide(value: Tensor) -> Tensor:
    """Cast to at least float32, because sums over many weights are inaccurate in half precision."""
    return value.to(torch.promote_types(value.dtype, torch.float32))


def end_to_end(tensors: Iterable[Tensor]) -> Tensor:
    """Return the elements of all tensors as one vector, empty if there are none."""
    vectors = [value.flatten() for value in tensors]
    return torch.cat(vectors) if vectors else torch.zeros(0)


def total(terms: Iterable[Tensor]) -> Tensor:
    """Return the sum of terms that may be on several devices."""
    terms = list(terms)
    return torch.stack([term.to(terms[0].device) for term in terms]).sum(0) if terms else torch.zeros(())


def tempered(known: Mapping[str, float], names: Iterable[str], temperature: float) -> dict[str, float]:
    """Return the temperatures by name, multiplied by another one."""
    return {name: known.get(name, 1.0) * temperature for name in names}
