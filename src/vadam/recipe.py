"""From Adam's settings to Vadam's: one call that chooses everything that Adam does not have.

    effective data   max(N, 5·10⁶)      data_weight = 5·10⁶/N for smaller sets: a cold posterior, narrow enough to train deep networks
    prior            N(0, 1/100)        the width of weights that the data do not need
    batch_size       M                  Theorem 1's correction: s/w is the curvature of single examples
    betas            (γ₁, 1 − 5/steps)  at most 0.99, so that the start has faded when training ends
    normalisation    deterministic      BatchNorm, LayerNorm, … are trained and not sampled

A network with BatchNorm gets 10⁸ and N(0, 1/10⁴): it is trained with the statistics of each draw and predicts with their average, so
that noise hurts it more.

docs/recipe.md says where the numbers come from, and where else they were tried.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, WeightedRandomSampler

from vadam.gaussian import MeanFieldGaussian
from vadam.optim.vadam import Vadam
from vadam.rules import arguments

EFFECTIVE_DATA, PRIOR_PRECISION = 5e6, 100.0
BATCHNORM_EFFECTIVE_DATA, BATCHNORM_PRIOR_PRECISION = 1e8, 1e4
START = 0.1
"""Curvature at the start: the posterior begins narrow, and its start fades within some hundred steps."""
LONGEST_MEMORY = 0.99
SHORTEST_MEMORY = 0.9
FADING = 5.0
"""The start fades by the factor exp(−5) in the whole training, or faster."""
NORMALISATIONS = (
    nn.modules.batchnorm._NormBase,
    nn.LayerNorm,
    nn.GroupNorm,
    nn.LocalResponseNorm,
    *((nn.RMSNorm,) if hasattr(nn, "RMSNorm") else ()),
)


def from_adam(
    model: nn.Module,
    loader: DataLoader[Any] | None = None,
    *,
    lr: float = 1e-3,
    steps: int | None = None,
    num_data: int | None = None,
    batch_size: int | None = None,
    **changes: Any,
) -> Vadam:
    """Return Vadam for a network that Adam trains, attached to it: keep the loop, the rate and its schedule.

    Args:
        model: the network. Its normalisation layers are trained and not sampled; frozen weights stay out.
        loader: the loader of the training data, from which ``num_data`` and ``batch_size`` are read. With a ``DistributedSampler``
            they are those of all ranks.
        lr: Adam's learning rate. Let it fall to zero along a half cosine, as for Adam.
        steps: number of steps of the training, if it is shorter than 500: then the averages forget faster.
        num_data: number of training examples, where the loader does not say.
        batch_size: examples of a step, where the loader does not say, or where several batches make a step.
        changes: other arguments of :class:`vadam.Vadam`, in place of the recipe's: ``prior="init", prior_precision=1e4`` for a
            pre-trained network, for example. ``prior=`` an earlier posterior brings its own precisions, the start included.

    Example:
        >>> import torch, vadam
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        >>> opt = vadam.from_adam(model, num_data=5_000, batch_size=50, lr=1e-3)
        >>> [len(group["params"]) for group in opt.param_groups]     # sampled, and not: BatchNorm's two
        [4, 2]
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be the nn.Module that is trained, got {type(model).__name__}")
    N, M = _sizes(loader, num_data, batch_size)
    arguments.NUM_DATA.check(N)
    batchnorm = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())
    effective = BATCHNORM_EFFECTIVE_DATA if batchnorm else EFFECTIVE_DATA
    settings: dict[str, Any] = {
        "lr": lr,
        "betas": (0.9, _memory(steps)),
        "num_data": N,
        "batch_size": M,
        "data_weight": max(1.0, effective / N),
        "prior_precision": BATCHNORM_PRIOR_PRECISION if batchnorm else PRIOR_PRECISION,
        **changes,
    }
    if isinstance(settings.get("prior"), MeanFieldGaussian):
        if "prior_precision" not in changes:
            del settings["prior_precision"]
    elif "init_precision" not in changes:
        T = settings.setdefault("temperature", 1.0)
        for argument in (arguments.TEMPERATURE, arguments.DATA_WEIGHT, arguments.PRIOR_PRECISION):
            argument.check(settings[argument.name])
        settings["init_precision"] = (settings["prior_precision"] + START * N * settings["data_weight"]) / T
    return Vadam(_groups(model, settings.get("prior")), **settings).attach(model)


def _sizes(loader: DataLoader[Any] | None, num_data: int | None, batch_size: int | None) -> tuple[int, int]:
    """Return the number of examples and of those in a step: as given, or as the loader says."""
    sampler = _sampler(loader)
    ranks = sampler.num_replicas if isinstance(sampler, DistributedSampler) else 1
    if num_data is None and isinstance(sampler, DistributedSampler):
        num_data = len(sampler.dataset)  # type: ignore[arg-type]  # the sampler itself has the examples of one rank
    batches = getattr(loader, "batch_size", 0) is None and getattr(loader, "batch_sampler", None) is None
    if num_data is None and batches:
        raise ValueError(
            "num_data is needed: the loader has batch_size=None, so that an item may be a batch, and its number of items says nothing. "
            "Pass num_data="
        )
    if num_data is None:
        examples = getattr(loader, "dataset", None) if sampler is None else _drawn_from(sampler)
        if not isinstance(examples, Sized):
            raise ValueError(
                "num_data is needed: the loader does not say how many training examples there are. Pass num_data="
            )
        num_data = len(examples)
    if batch_size is None:
        found = getattr(loader, "batch_size", None)
        found = getattr(getattr(loader, "batch_sampler", None), "batch_size", None) if found is None else found
        batch_size = None if found is None else found * ranks
    if batch_size is None:
        raise ValueError("batch_size is needed: the loader does not say how many examples a step has. Pass batch_size=")
    return num_data, batch_size


def _sampler(loader: DataLoader[Any] | None) -> Any:
    """Return the sampler of single examples, that behind the loader's batches if it has one."""
    behind = getattr(getattr(loader, "batch_sampler", None), "sampler", None)
    return behind if isinstance(behind, Sized) else getattr(loader, "sampler", None)


def _drawn_from(sampler: Any) -> Any:
    """Return what has as many items as a sampler has examples to draw from: how often it draws is not how many there are."""
    if isinstance(sampler, RandomSampler):
        return sampler.data_source
    return sampler.weights.tolist() if isinstance(sampler, WeightedRandomSampler) else sampler


def _memory(steps: int | None) -> float:
    """Return γ₂ of a training of so many steps."""
    if steps is None:
        return LONGEST_MEMORY
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ValueError(f"steps must be a whole number of at least 1, got {steps!r}")
    return min(LONGEST_MEMORY, max(SHORTEST_MEMORY, 1.0 - FADING / steps))


def _groups(model: nn.Module, prior: Any) -> list[dict[str, Any]]:
    """Return the trained weights in two groups: sampled, and those of normalisation layers, which are not.

    They have names where an earlier posterior is the prior, because layers may have been frozen or added since.
    """
    normalising = {
        id(p) for module in model.modules() if isinstance(module, NORMALISATIONS) for p in module.parameters()
    }
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    sampled, kept = ([pair for pair in trained if (id(pair[1]) in normalising) is kind] for kind in (False, True))
    if not sampled:
        raise ValueError(
            "the model has no weights to sample, as all are frozen or belong to normalisation layers: unfreeze some"
        )
    named = isinstance(prior, MeanFieldGaussian) and any(name in prior.mean for name, _ in sampled)
    groups: list[dict[str, Any]] = [{"params": sampled}, *([{"params": kept, "deterministic": True}] if kept else [])]
    return groups if named else [{**group, "params": [p for _, p in group["params"]]} for group in groups]
