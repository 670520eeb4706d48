"""One cell for each method; the 20 splits are one stack."""

from typing import Any

import numpy as np
import torch

from vadam_paper import data
from vadam_paper.data import split_rules
from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.logreg import methods, quality
from vadam_paper.experiments.logreg.engine import Method, train
from vadam_paper.experiments.logreg.problem import Problem, with_bias
from vadam_paper.experiments.logreg_usps.config import Config

RATES = methods.Rates()


def cells(config: Config) -> dict[str, float]:
    """Return the cells with their costs, in steps of a minibatch of 64; a VOGN-1 step costs a fifth of one."""
    vadam = config.vadam_epochs / config.batch_size
    costs = {"mf-exact": 0.05 * vadam, "vadam": vadam, "vogn-1": config.vogn_epochs / 5}
    if config.protocol == "authors":
        return costs | {"vadam-ggn": vadam}
    costs |= {"vadam-larger-steps": vadam, "mf-exact-digits-2v4": 0.05 * vadam}
    corrected = {f"vadam-batch-size-M{M}": beyond_epochs(config) / M for M in config.corrected}
    return costs | corrected | {"vadam-ggn": beyond_epochs(config) / config.batch_size}


def run_cell(config: Config, key: str, context: CellContext) -> dict[str, Any]:
    problem = load("usps-2vs4" if key.endswith("2v4") else "usps-3vs5", config, context)
    mean, precision = exact = quality.mean_field_optimum(problem)
    if not key.startswith("mf-exact"):
        how = method(config, key, problem.num_data)
        start = torch.zeros_like(mean)
        *_, last = train(problem, how, start, context, seed=config.seed, key=key, compiled=config.compiled)
        mean, precision = last.mean, last.precision
    return {
        "nelbo": quality.nelbo_per_datum(problem, mean, precision),
        "log_loss": quality.log_loss(problem, mean, precision),
        "kl": quality.symmetric_kl(mean, precision, *exact),
        "num_data": problem.num_data,
    }


def beyond_epochs(config: Config) -> int:
    """Return the number of epochs of the methods beyond the paper."""
    return 10 * config.vogn_epochs


def load(name: str, config: Config, context: CellContext) -> Problem:
    table = data.load(name, root=context.data)
    splits = split_rules.halves(len(table.X))[: config.splits]
    return with_bias(
        table.X,
        table.y.astype(float),
        np.stack([split.train for split in splits]),
        np.stack([split.test for split in splits]),
        config.prior_precision,
    )


def method(config: Config, key: str, num_data: int) -> Method:
    M = config.batch_size
    vadam_steps, vogn_steps = config.vadam_epochs * num_data // M, config.vogn_epochs * num_data
    beyond_steps = beyond_epochs(config) * num_data
    name, _, size = key.rpartition("-M")
    if name == "vadam-batch-size":
        return methods.vadam_with_batch_size(int(size), beyond_steps // int(size), num_data)
    match config.protocol, key:
        case "authors", "vadam":
            return methods.authors_vadam(RATES, M, vadam_steps)
        case "authors", "vadam-ggn":
            return methods.authors_vadam_with_ggn(RATES, M, vadam_steps)
        case "authors", "vogn-1":
            return methods.authors_vogn(RATES, 1, vogn_steps)
        case "text", "vadam":
            return methods.text_vadam(RATES, M, vadam_steps)
        case "text", "vadam-larger-steps":
            return methods.text_vadam_with_larger_steps(RATES, M, vadam_steps, num_data)
        case "text", "vadam-ggn":
            return methods.vadam_ggn(M, beyond_steps // M, num_data)
        case "text", "vogn-1":
            return methods.text_vogn(RATES, 1, vogn_steps)
    raise ValueError(
        f"unknown cell {key!r} of the protocol {config.protocol!r}: choose one of {', '.join(cells(config))}"
    )
