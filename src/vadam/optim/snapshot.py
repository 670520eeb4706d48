"""Posteriors, priors and names of the parameters that an optimizer trains."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from vadam.backends.shards import whole
from vadam.gaussian import MeanFieldGaussian, Shares
from vadam.interrupts import without_grad
from vadam.optim import prior
from vadam.optim.distributed import reshard, unwrapped

if TYPE_CHECKING:
    from vadam.optim.posterior import PosteriorOptimizer


def names(opt: PosteriorOptimizer, model: nn.Module | None = None) -> dict[Tensor, str]:
    """Return the name of each parameter: the model's where one is known, otherwise its position."""
    prefixes = [""] if len(opt.param_groups) == 1 else [f"{k}." for k in range(len(opt.param_groups))]
    known: dict[Tensor, str] = {}
    for prefix, group in zip(prefixes, opt.param_groups, strict=True):
        known |= {p: f"{prefix}{i}" for i, p in enumerate(group["params"])}
        known |= dict(zip(group["params"], group.get("param_names", ()), strict=False))
    if opt._attachment is not None:
        known |= opt._attachment.names()
    if model is not None:
        reshard(model)
        known |= {p: name for name, p in unwrapped(model).named_parameters()}
    return known


def unique_names(opt: PosteriorOptimizer, model: nn.Module | None = None) -> dict[Tensor, str]:
    """Return the name of each parameter; raise ValueError if two share one, as a posterior has one entry for each name."""
    found = names(opt, model)
    counts = Counter(found[p] for _, p in opt._grouped())
    if twice := [name for name, count in counts.items() if count > 1]:
        raise ValueError(
            f"posterior(): {counts[twice[0]]} parameters of this optimizer are called {twice[0]!r}, and a posterior would have only one of "
            f"them. Call opt.posterior(model) with the module that owns them all, or give them names of their own: "
            f"{{'params': [(f'head.{{name}}', p) for name, p in head.named_parameters()]}}"
        )
    return found


def mean_of(opt: PosteriorOptimizer, p: Tensor) -> Tensor:
    """Return a copy of a parameter's mean, whole on every rank, also while the parameter holds a sample."""
    held = opt._weights.mean_of(p)
    return whole(p.detach() if held is None else held).to(p.dtype).clone()


def refuse_frozen(opt: PosteriorOptimizer) -> None:
    """Raise RuntimeError if all weights that were sampled are frozen now: the posterior would be points and predict without doubt."""
    if not opt._sampled() and any(
        set(opt.state.get(p, ())) - {*prior.FIELDS} for group, p in opt._grouped() if not group["deterministic"]
    ):
        raise RuntimeError(
            "posterior(): all weights that this optimizer has sampled are frozen now, and frozen weights have no spread. Ask for the "
            "posterior before requires_grad_(False), or call requires_grad_(True) first"
        )


@without_grad
def mean_field(opt: PosteriorOptimizer, model: nn.Module | None = None) -> MeanFieldGaussian:
    """Return q as it is now, whole on every rank; weights that are not sampled are points."""
    refuse_frozen(opt)
    opt._settle()
    name = unique_names(opt, model)
    point = {name[p]: mean_of(opt, p) for group, p in opt._grouped() if group["deterministic"] or not p.requires_grad}
    mean, precision = {}, {}
    for p, own in opt._precisions(opt._sampled()):
        mean[name[p]], precision[name[p]] = mean_of(opt, p), whole(own).clone()
    prior_precision, prior_mean = prior_of(opt, name)
    return MeanFieldGaussian(
        mean,
        precision,
        point=point,
        prior_precision=prior_precision,
        prior_mean=prior_mean,
        shares=shares_of(opt, name, precision),
        temperature=temperature_of(opt, name),
    )


def prior_of(opt: PosteriorOptimizer, name: dict[Tensor, str]) -> tuple[Any, Any]:
    """Return the prior's precisions and means of the sampled weights by name; None where there is no prior, or a mean of zero."""
    sampled = set(opt._sampled())
    found = {name[p]: prior.of(g, opt.state[p]) for g, p in opt._grouped() if p in sampled and "prior_precision" in g}
    if not found:
        return None, None
    means = {key: mean for key, (mean, _) in found.items()}
    is_zero = all(not isinstance(mean, Tensor) and mean == 0 for mean in means.values())
    return {key: precision for key, (_, precision) in found.items()}, None if is_zero else means


def temperature_of(opt: PosteriorOptimizer, name: dict[Tensor, str]) -> dict[str, float]:
    """Return the temperature of each sampled weight by name, where it is not 1."""
    sampled, found = set(opt._sampled()), ((group.get("temperature", 1.0), p) for group, p in opt._grouped())
    return {name[p]: T for T, p in found if p in sampled and T != 1}


def shares_of(opt: PosteriorOptimizer, name: dict[Tensor, str], precision: dict[str, Tensor]) -> dict[str, Shares]:
    """Return how much of each parameter's precision is the prior's and the start's, where the rule has a prior and an average s.

    Where the rule does not keep the start apart, it is at most the smallest s of all weights: none has had less curvature since.
    """
    params = opt._sampled()
    sampled, found = set(params), dict[str, Shares]()
    kept = [opt.state[p]["s"] for p in params if "s" in opt.state[p] and "s0" not in opt.state[p] and p.numel()]
    least = max(0.0, min([float(whole(s).min()) for s in kept], default=0.0))
    for group, p in opt._grouped():
        state = opt.state[p]
        if p not in sampled or "s" not in state or "prior_precision" not in group or not p.numel():
            continue
        _, rule_args = opt._rule_and_numbers(group)
        P = precision[name[p]]
        prior_part = rule_args.get("tau", 1.0) * prior.of(group, state)[1] / group.get("temperature", 1.0)
        start = rule_args["N"] * float(state.get("s0", least))
        found[name[p]] = Shares(float((prior_part / P).mean()), float((start / P).mean().clamp(max=1)))
    return found
