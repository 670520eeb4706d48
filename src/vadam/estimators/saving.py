"""Save fitted estimators: the posteriors as ``vadam.save`` writes them, everything else as JSON in the file's header."""

from __future__ import annotations

import os
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
import torch
from sklearn.base import is_classifier

from vadam import persist
from vadam.ensemble import MLP, Method, Scaling, Stack
from vadam.estimators.arguments import check_arguments
from vadam.gaussian import MeanFieldGaussian, Mixture
from vadam.likelihoods import outputs_for

Estimator = TypeVar("Estimator")


def save(path: str | os.PathLike[str], estimator: Any) -> None:
    """Write a fitted estimator to a file."""
    stack = estimator.stack_
    params = estimator.get_params()
    if not isinstance(params["optimizer"], str):
        method = params["optimizer"]
        if type(method) is not Method:
            raise ValueError(f"{type(method).__name__} is not a vadam.ensemble.Method: its estimator cannot be saved")
        params["optimizer"] = {"name": method.name, **method.as_dict()}
    if not isinstance(params["random_state"], Integral | None):
        params["random_state"] = None  # a generator: its state has nothing to do with the fitted weights
    if callable(params["verbose"]):
        params["verbose"] = False
    config = {
        "estimator": type(estimator).__name__,
        "params": {**params, "hidden": None if params["hidden"] is None else list(params["hidden"])},
        "likelihood": stack.likelihood,
        "sizes": [p.shape[1] for name, p in stack.network.named_parameters() if p.dim() == 2]
        + [stack.network[-1].out_features],
        "noise_precision": float(stack.noise_precision[0]),
        "dropout": None if stack.dropout is None else float(stack.dropout[0]),
        "seeds": stack.seeds,
        "scaling": [values[0].tolist() for values in stack.scaling],
        "found": {"n_features_in_": estimator.n_features_in_, **estimator._fitted_state()},
        "feature_names": [str(name) for name in getattr(estimator, "feature_names_in_", [])],
        "classes": estimator.classes_.tolist() if hasattr(estimator, "classes_") else None,
    }
    persist.save(path, Mixture([stack.posterior(k) for k in range(len(stack))]), config=_plain(config))


def _plain(value: Any) -> Any:
    """Convert numpy's numbers to Python's, which JSON supports."""
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value


def load(path: str | os.PathLike[str], cls: type[Estimator]) -> Estimator:
    """Read a fitted estimator of a class; raise ValueError for any other file."""
    posterior, config = persist.load(path)
    found = config.get("estimator")
    if found != cls.__name__:
        holds, loader = (found, f"{found}.load") if found else ("a posterior without estimator", "vadam.load")
        raise ValueError(f"{str(path)!r} holds {holds}, not a {cls.__name__}: read it by {loader}")
    try:
        return _restored(cls, posterior, config)
    except persist.DAMAGE as error:
        raise persist.damaged(path, error) from error


def _restored(cls: type[Estimator], posterior: Any, config: dict[str, Any]) -> Estimator:
    params = config["params"]
    hidden = None if params["hidden"] is None else tuple(params["hidden"])
    estimator: Any = cls(**{**params, "hidden": hidden, "optimizer": _optimizer(params["optimizer"])})
    check_arguments(estimator)
    _check_sizes(config, len(posterior.components), classifier=is_classifier(estimator))
    estimator.n_features_in_ = config["found"]["n_features_in_"]
    estimator._restore_state(config["found"])
    _check_columns(config, estimator)
    if config["feature_names"]:
        estimator.feature_names_in_ = np.array(config["feature_names"], dtype=object)
    if is_classifier(estimator):
        estimator.classes_ = np.array(config["classes"])
    estimator.search_ = None
    estimator.stack_ = _stack(posterior, config, params["activation"])
    return estimator


def _optimizer(saved: Any) -> Any:
    """Return a name as it is, and the method that a dict describes."""
    if not isinstance(saved, dict):
        return saved
    return Method(**saved)


def _check_sizes(config: dict[str, Any], members: int, *, classifier: bool) -> None:
    """Raise ValueError if a part of the header does not fit the network; the tensors are compared with it later."""
    inputs, outputs, kind = config["sizes"][0], config["sizes"][-1], config["likelihood"]
    classes = len(config["classes"]) if classifier else 0
    allowed = ("categorical",) if classes > 2 else ("bernoulli",) if classifier else ("gaussian", "input-noise")
    targets = outputs // 2 if kind == "input-noise" else outputs
    for name, found, expected in (
        ("scaling", [len(values) for values in config["scaling"]], [inputs, inputs, targets, targets]),
        ("seeds", len(config["seeds"]), members),
        ("likelihood", kind, kind if kind in allowed else allowed[0]),
        ("outputs", outputs, classes if classes > 2 else 1 if classifier else outputs_for(kind, targets)),
    ):
        if found != expected:
            raise ValueError(f"{name} is for {found}, but the network is for {expected}")


def _check_columns(config: dict[str, Any], estimator: Any) -> None:
    """Raise ValueError if the columns of the header do not fit each other and the network."""
    inputs, features = config["sizes"][0], estimator.n_features_in_
    encoder, names = estimator.encoder_, config["feature_names"]
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError(f"feature_names must be a list of texts, got {str(names)[:50]}")
    for name, found, expected in (
        ("encoder", len(encoder.outputs), inputs),
        ("centre and spread", [len(estimator.centre_), len(estimator.spread_)], [inputs, inputs]),
        ("n_features_in_", features, len(encoder.columns) + len(encoder.left_out)),
        ("feature_names", len(names) or features, features),
    ):
        if found != expected:
            raise ValueError(f"{name} is for {found}, but the network is for {expected}")


def _stack(mixture: Any, config: dict[str, Any], activation: str) -> Stack:
    components: list[MeanFieldGaussian] = list(mixture.components)
    K, first = len(components), components[0]
    points = not first.mean
    mean = [component.point if points else component.mean for component in components]
    with torch.device("meta"):  # no memory before the sizes are known to be those of the tensors
        network = MLP(*config["sizes"], activation=activation)
    network.load_state_dict(mean[0], assign=True)
    prior = first.prior_precision
    scaling = [torch.tensor([*map(float, values)], dtype=torch.float64).expand(K, -1) for values in config["scaling"]]
    if not all(bool(values.isfinite().all()) for values in scaling):
        raise ValueError("scaling must be finite")
    return Stack(
        network=network,
        likelihood=config["likelihood"],
        mean={name: torch.stack([weights[name] for weights in mean]) for name in mean[0]},
        precision=None if points else {n: torch.stack([c.precision[n] for c in components]) for n in first.precision},
        prior_precision=None if prior is None else torch.tensor([float(next(iter(prior.values())))] * K),
        noise_precision=torch.full((K,), config["noise_precision"]),
        dropout=None if config["dropout"] is None else torch.full((K,), config["dropout"]),
        seeds=[int(seed) for seed in config["seeds"]],
        scaling=Scaling(*scaling),
        temperature=torch.tensor([float(next(iter(c.temperature.values()), 1.0)) for c in components]),
    )
