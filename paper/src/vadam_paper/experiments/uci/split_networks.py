"""The networks to train for every split: its folds and its final run, as members of a stack."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vadam.ensemble import MLP, Member
from vadam_paper import data
from vadam_paper.experiments.uci.config import Config, splits
from vadam_paper.experiments.uci.methods import LENGTH_SCALE

FOLD_SEED = 123
"""Seed of the authors' program, which folds every split in the same order of its rows."""
SEEDS_A_SPLIT = 100


def searches(config: Config, name: str, method: str = "vadam") -> int:
    """Return the number of searches: one for each split, or one for a single split."""
    return 1 if "." in name else splits(config, name, method)


def final_members(config: Config, name: str, root: Path | None, method: str = "vadam") -> list[Member]:
    """Return one member per split, trained on its training rows, with its own seed for order and noise."""
    name, _, split = name.partition(".")
    table = data.load(name, root=root)
    init = first_weights(config, table.X.shape[1])
    count = splits(config, name, method)
    chosen = [data.splits(name)[int(split)]] * count if split else data.splits(name)[:count]
    return [
        Member(table.X, table.y, train=train, test=test, seed=seed, prior_precision=LENGTH_SCALE**2, init=init)
        for (train, test), seed in zip(chosen, _seeds(config, count), strict=True)
    ]


def first_weights(config: Config, inputs: int) -> dict[str, Tensor] | None:
    """Return what torch draws for the network after the authors' ``manual_seed(123)``."""
    if config.first_weights is None:
        return None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.first_weights)
        network = MLP(inputs, config.hidden, 1)
    return {name: weight.detach() for name, weight in network.named_parameters()}


def folds(config: Config, member: Member) -> list[Member]:
    """Return one member per fold, which is held out from the training rows; the test rows are not used."""
    rows = np.asarray(member.train)
    parts = np.array_split(np.random.RandomState(FOLD_SEED).permutation(len(rows)), config.folds)
    return [
        replace(member, train=rows[np.setdiff1d(np.arange(len(rows)), part)], test=rows[part], seed=member.seed + k)
        for k, part in enumerate(parts, start=1)
    ]


def at(points: list[dict[str, float]], members: list[Member]) -> list[Member]:
    """Return the members with the hyper-parameters that a search found for them."""
    return [replace(member, **point) for member, point in zip(members, points, strict=True)]  # type: ignore[arg-type]


def _seeds(config: Config, count: int) -> list[int]:
    return [SEEDS_A_SPLIT * (config.splits * config.seed + split) for split in range(count)]
