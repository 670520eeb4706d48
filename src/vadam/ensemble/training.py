"""Train many networks as one computation.

The members are sorted by length and cut into chunks whose activations fit the cache; a chunk is trained step by step as one
stack, then scored. Chunks are independent: they run one after the other, so memory does not grow with the number of
members, or in several single-threaded processes, for small networks faster than one process with several threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from vadam.default_device import default_device
from vadam.ensemble.members import Member
from vadam.ensemble.method import Method
from vadam.ensemble.minibatches import Schedule
from vadam.ensemble.mlp import layers_of
from vadam.ensemble.scores import Scores, scores
from vadam.ensemble.stack import Stack
from vadam.ensemble.trainer import Settings, Trainer

FLOATS_A_CHUNK = 320_000  # activations of one layer, all members and samples: what fits the cache
COMPILE_FROM = 100_000  # steps times members: below, compiling takes longer than it saves

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Training:
    """The result of a training; member e is in place e of everything.

    ``scores`` has one number a member for each score, and is empty without test rows. ``history[name][e]`` holds a score
    of member e after each of its epochs. ``stack`` is None if the posteriors were not kept.
    """

    stack: Stack | None
    scores: Scores
    history: dict[str, list[Tensor]]
    diverged: Tensor


class Reporting(NamedTuple):
    """The arguments of ``train`` that say what is scored and kept."""

    evaluation_samples: int
    history: bool
    keep: bool


def train(
    members: Sequence[Member],
    network: nn.Module,
    method: Method,
    *,
    likelihood: str = "gaussian",
    epochs: int = 40,
    batch_size: int = 32,
    standardise: bool = True,
    schedule: Schedule | None = None,
    evaluation_samples: int = 100,
    history: bool = False,
    keep: bool = True,
    engine: str = "auto",
    compiled: bool | None = None,
    jobs: int = 1,
    chunk: int | None = None,
    dtype: torch.dtype = torch.float32,
    progress: Progress | None = None,
) -> Training:
    """Train ``network`` once for each member, and score it on the member's test rows.

    A member's result does not depend on the others, nor on ``jobs`` and ``chunk``.

    Args:
        members: the networks to train: data, rows and numbers of each.
        network: the architecture. Its weights are not used, but those of modules without ``reset_parameters`` are where all start.
            Dropout and batch normalisation must be in evaluation mode.
        method: the rule and its settings, e.g. ``Method("vadam", lr=0.01, samples=10)``.
        likelihood: "gaussian", "input-noise" (two outputs a target: means, then log deviations), "student-t", "poisson" (log rates),
            "bernoulli" (labels 0 and 1, one output) or "categorical".
        epochs, batch_size: passes over a member's rows, and examples per step; the last, smaller minibatch is kept. A method's own
            ``batch_size`` must be the same.
        standardise: the inputs, and real targets, by the member's training rows.
        schedule: ``schedule(t, T)`` multiplies the learning rate at step t of T.
        evaluation_samples: samples of the weights for the scores.
        history: score after every epoch, not only at the end.
        keep: False drops the posteriors, for cross-validation.
        engine: "bmm" for perceptrons, "vmap" for other modules, "loop"; "auto" picks one of the first two.
        compiled: compile the step of "bmm"; None does if there is enough work to pay for it.
        jobs: processes (needs joblib; a joblib backend chosen outside, such as Dask's, is used).
        chunk: members a stack; None fills the cache.
        dtype: of weights and data.
        progress: called with the number of members done and of all.

    >>> from vadam.ensemble import MLP
    >>> x = torch.linspace(-2, 2, 50).unsqueeze(1)
    >>> members = [Member(x, x.sin(), noise_precision=100.0, seed=seed) for seed in range(3)]
    >>> training = train(members, MLP(1, 20, 1, activation="tanh"), Method("vadam", lr=0.01), epochs=5)
    >>> training.stack.outputs(x, samples=10).shape  # members, samples, rows, outputs
    torch.Size([3, 10, 50, 1])
    """
    with default_device(next(network.parameters()).device):
        members = list(members)
        whole = {"epochs": epochs, "batch_size": batch_size, "evaluation_samples": evaluation_samples, "jobs": jobs}
        for name, value in {**whole, "chunk": 1 if chunk is None else chunk}.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name}={value!r} is not valid: give a whole number from 1")
        settings = Settings(
            network, method, likelihood, epochs, batch_size, standardise, schedule, engine=engine, dtype=dtype
        )
        _check(members, settings, history)
        lengths = [settings.length(member) for member in members]
        if engine in ("auto", "bmm") and layers_of(network):
            pays = sum(lengths) >= COMPILE_FROM
            settings = replace(settings, engine="bmm", compiled=pays if compiled is None else compiled)
        most_rows = max(member.train_rows for member in members)
        settings = replace(settings, most_rows=most_rows)
        size = chunk or _equal_size(len(members), _fitting(network, method.samples * min(batch_size, most_rows)), jobs)
        order = sorted(range(len(members)), key=lambda e: -lengths[e])
        chunks = [[members[e] for e in order[i : i + size]] for i in range(0, len(order), size)]
        parts: list[Training] = []
        for part in _run(jobs, chunks, settings, Reporting(evaluation_samples, history, keep)):
            parts.append(part)
            if progress:
                progress(sum(len(done.diverged) for done in parts), len(members))
        return _joined(parts, order)


def _equal_size(members: int, most: int, jobs: int) -> int:
    """Return the size of equal chunks, at most ``most``, as many for each process."""
    rounds = -(-members // (most * jobs))
    return -(-members // (rounds * jobs))


def _run(jobs: int, chunks: list[list[Member]], settings: Settings, reporting: Reporting) -> Iterator[Training]:
    """Yield the chunks' results, in order."""
    stack = max(2, len(chunks[0])) if settings.compiled else 1
    if jobs == 1:
        yield from (_single_threaded(members, stack, settings, reporting) for members in chunks)
        return
    try:
        import joblib
    except ImportError as error:
        raise ImportError(f'jobs={jobs} runs processes through joblib: pip install "vadam[sweep]"') from error
    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator")
    yield from parallel(joblib.delayed(_single_threaded)(members, stack, settings, reporting) for members in chunks)


def _single_threaded(members: list[Member], stack: int, settings: Settings, reporting: Reporting) -> Training:
    """Train one chunk; small networks on one thread, because threads would change the rounding and gain nothing.

    A chunk smaller than ``stack`` is filled up with copies, so that nothing is compiled again for another size.
    """
    if settings.engine != "bmm":
        return _train_chunk(members, settings, reporting)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        copies = [members[0]] * (stack - len(members))
        return _joined([_train_chunk(members + copies, settings, reporting)], list(range(len(members))))
    finally:
        torch.set_num_threads(threads)


def _train_chunk(members: list[Member], settings: Settings, reporting: Reporting) -> Training:
    """Train one stack from its first weights to its scores."""
    trainer = Trainer(members, settings)
    curves: list[list[Scores]] = [[] for _ in members]
    for t, batch in enumerate(trainer.batches(), start=1):
        trainer.step(batch)
        for e, member in enumerate(members if reporting.history else ()):
            epoch, rest = divmod(t, settings.epoch_length(member))
            if rest == 0 and t <= settings.length(member):
                found = scores(trainer.stack[e], [trainer.tests[e]], reporting.evaluation_samples, epoch=epoch)
                curves[e].append(found)
    stack = trainer.stack
    final = scores(stack, trainer.tests, reporting.evaluation_samples) if trainer.tests else {}
    names = list(final) if reporting.history else []
    history = {name: [torch.cat([score[name] for score in curve]) for curve in curves] for name in names}
    return Training(stack if reporting.keep else None, final, history, ~stack.finite)


def _joined(parts: list[Training], order: list[int]) -> Training:
    """Join the chunks' results; position i of the chunks, laid end to end, belongs to member ``order[i]``."""
    place = [0] * len(order)
    for i, e in enumerate(order):
        place[e] = i
    stacks = [part.stack for part in parts if part.stack is not None]
    curves = {name: [curve for part in parts for curve in part.history[name]] for name in parts[0].history}
    return Training(
        stack=Stack.join(stacks)[place] if stacks else None,
        scores={name: torch.cat([part.scores[name] for part in parts])[place] for name in parts[0].scores},
        history={name: [values[i] for i in place] for name, values in curves.items()},
        diverged=torch.cat([part.diverged for part in parts])[place],
    )


def _check(members: list[Member], settings: Settings, history: bool) -> None:
    if not members:
        raise ValueError("there is no member to train: give at least one")
    settings.check()
    for e, member in enumerate(members):
        settings.check_member(member, f"member {e}")
    tested = sum(member.test is not None for member in members)
    if tested not in (0, len(members)):
        raise ValueError(f"{tested} of {len(members)} members have test rows: give them to all members or to none")
    if history and not tested:
        raise ValueError(
            "history=True scores the test rows after every epoch, but the members have none: give them by Member(test=...)"
        )


def _fitting(network: nn.Module, rows: int) -> int:
    """Return how many members fit, when each runs ``rows`` rows (samples times examples) through its widest layer."""
    width = max(math.prod(p.shape[:1]) for p in network.parameters())
    return max(1, FLOATS_A_CHUNK // (rows * width))
