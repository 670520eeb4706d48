"""Run one cell for each method and minibatch size; the restarts are one stack."""

from typing import Any

import numpy as np
import torch

from vadam_paper import data
from vadam_paper.data import split_rules
from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.logreg import methods, quality
from vadam_paper.experiments.logreg.engine import Method, Snapshot, train
from vadam_paper.experiments.logreg.problem import Problem, with_bias
from vadam_paper.experiments.logreg_breast_cancer.config import Config

RATES = methods.Rates()
TRACE_POINTS = 16


def cells(config: Config) -> dict[str, float]:
    """Return the cells with their costs: a step costs about the same up to M = 8, and more beyond."""
    cost_per_epoch = {M: (1 + M / 32) / M for M in config.batch_sizes}
    costs = {"mf-exact": 0.001, "vogn-1": config.vogn_epochs / config.vadam_epochs}
    costs |= {f"vadam-M{M}": cost for M, cost in cost_per_epoch.items()}
    if config.protocol == "authors":
        return costs | {"vogn-1-with-decay": 1.0, "vadam-ggn-M64": cost_per_epoch.get(64, 0.05)}
    corrected = {f"vadam-batch-size-M{M}": cost / 5 for M, cost in cost_per_epoch.items() if M > 1}
    return costs | {f"vadam-larger-steps-M{M}": cost for M, cost in cost_per_epoch.items()} | corrected


def run_cell(config: Config, key: str, context: CellContext) -> dict[str, Any]:
    problem = load(config, context)
    exact = quality.mean_field_optimum(problem)
    if key == "mf-exact":
        return scores(problem, Snapshot(0, *exact), exact)
    how = method(config, key, problem.num_data)
    keep_at = tuple(int(how.steps * 10 ** (-k / 5)) for k in range(TRACE_POINTS, 0, -1))
    snapshots = train(
        problem,
        how,
        torch.zeros_like(exact[0]),
        context,
        seed=config.seed,
        key=key,
        compiled=config.compiled,
        keep_at=keep_at,
    )
    trace = {
        "epoch": [snapshot.step * how.batch_size / problem.num_data for snapshot in snapshots],
        "kl": [kl(snapshot, exact).median() for snapshot in snapshots],
    }
    return scores(problem, snapshots[-1], exact) | {"steps": how.steps, "trace": trace}


def scores(problem: Problem, q: Snapshot, exact: tuple[torch.Tensor, torch.Tensor]) -> dict[str, Any]:
    return {
        "kl": kl(q, exact),
        "nelbo": quality.nelbo_per_datum(problem, q.mean, q.precision),
        "log_loss": quality.log_loss(problem, q.mean, q.precision),
    }


def kl(q: Snapshot, exact: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return quality.symmetric_kl(q.mean, q.precision, *exact)


def load(config: Config, context: CellContext) -> Problem:
    """Return the problem: all restarts use the random half of seed 1."""
    table = data.load("breast-cancer", root=context.data)
    train_rows, test_rows = split_rules.halves(len(table.X))[0]
    repeated = (config.restarts, 1)
    return with_bias(
        table.X,
        table.y.astype(float),
        np.tile(train_rows, repeated),
        np.tile(test_rows, repeated),
        config.prior_precision,
    )


def method(config: Config, key: str, num_data: int) -> Method:
    def steps(epochs: int, M: int) -> int:
        return epochs * num_data // M

    vadam_steps, vogn_steps = config.vadam_epochs, config.vogn_epochs
    M = int(key.rpartition("-M")[2]) if "-M" in key else 1
    match config.protocol, key.rpartition("-M")[0] or key:
        case "authors", "vadam":
            return methods.authors_vadam(RATES, M, steps(vadam_steps, M))
        case "authors", "vadam-ggn":
            return methods.authors_vadam_with_ggn(RATES, M, steps(vadam_steps, M))
        case "authors", "vogn-1":
            return methods.authors_vogn(RATES, 1, steps(vogn_steps, 1))
        case "authors", "vogn-1-with-decay":
            return methods.authors_vogn_with_decay(RATES, 1, steps(vadam_steps, 1))
        case "text", "vadam":
            return methods.text_vadam(RATES, M, steps(vadam_steps, M))
        case "text", "vadam-larger-steps":
            return methods.text_vadam_with_larger_steps(RATES, M, steps(vadam_steps, M), num_data)
        case "text", "vadam-batch-size":
            return methods.vadam_with_batch_size(M, steps(vogn_steps, M), num_data)
        case "text", "vogn-1":
            return methods.text_vogn(RATES, 1, steps(vogn_steps, 1))
    raise ValueError(
        f"unknown cell {key!r} of the protocol {config.protocol!r}: choose one of {', '.join(cells(config))}"
    )
