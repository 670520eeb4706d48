"""The cells of an experiment: every trial of every method, recorded at several time steps."""

from collections.abc import Callable
from typing import Any

from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.contract import ExperimentError
from vadam_paper.experiments.milestones import key, lengths, parse_key
from vadam_paper.experiments.rl.config import FIRST, Config


def cells(config: Config) -> dict[str, float]:
    """Return the cells with their costs, in the order that shows most early.

    Trials that every method has come first, seed by seed: first the methods in ``FIRST``, then the others. Then come the
    additional trials of some methods, fewest first.
    """
    first = [m for m in FIRST if m in config.methods]
    then = [m for m in config.methods if m not in FIRST]
    order = [(method, number) for group in (first, then) for number in range(config.trials) for method in group]
    for count in sorted(set(config.trials_of.values())):
        more = [method for method in config.methods if config.trials_of.get(method) == count]
        order += [(method, number) for number in range(config.trials, count) for method in more]
    return {
        key(method, number, end): length / 1000
        for end, length in lengths(config.stretches).items()
        for method, number in order
    }


def trained(
    config: Config, key: str, context: CellContext, methods: Callable[[Any], dict[str, Any]] | None = None
) -> Any:
    """Return the trial of a cell, trained to its end.

    It resumes from its own checkpoint, or from that of an earlier milestone, or starts from the beginning.
    """
    method, number, end = parse_key(key)
    trial = _new_trial(config, method, number, methods)
    so_far = context.shared_checkpoint(f"{method}-{number}")
    restored = context.restore() or so_far.restore()
    if restored is not None and restored[1]["step"] <= end:
        trial.load(*restored)
    else:
        trial.test()
    while trial.step < end:
        trial.advance(end)
        context.report(trial.step / end)
        context.checkpoint(trial.tensors(), trial.meta())
    so_far.checkpoint(trial.tensors(), trial.meta())
    trial.close()
    return trial


def _new_trial(config: Config, method: str, number: int, methods: Callable[[Any], dict[str, Any]] | None) -> Any:
    try:
        from gymnasium.error import DependencyNotInstalled

        from vadam_paper.experiments.rl.methods import table_3
        from vadam_paper.experiments.rl.trial import Trial
    except ImportError as error:
        raise _missing(error) from error
    try:
        return Trial(config, (methods or table_3)(config)[method], number)
    except DependencyNotInstalled as error:  # MuJoCo
        raise _missing(error) from error


def _missing(error: Exception) -> ExperimentError:
    return ExperimentError(f'Reinforcement learning needs more packages: pip install "vadam[rl]" ({error}).')
