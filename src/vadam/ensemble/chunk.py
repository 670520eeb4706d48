"""One stack from its first weights to its scores: what ``train`` does with each chunk of members."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from vadam.ensemble import step as steps
from vadam.ensemble.engine import choose
from vadam.ensemble.layout import shapes_of, split
from vadam.ensemble.members import Member, Scaling, rows_of
from vadam.ensemble.methods import Hyper, Method
from vadam.ensemble.minibatches import Rows, Schedule, minibatches
from vadam.ensemble.noise import Stream
from vadam.ensemble.scores import Scores, scores
from vadam.ensemble.stack import Stack


@dataclass(frozen=True, eq=False)
class Settings:
    """The arguments of ``train`` that all members share."""

    network: nn.Module
    outputs: int
    method: Method
    likelihood: str
    epochs: int
    batch_size: int
    standardise: bool
    schedule: Schedule | None
    evaluation_samples: int
    history: bool
    keep: bool
    engine: str
    compiled: bool
    dtype: torch.dtype

    def epochs_of(self, member: Member) -> int:
        return self.epochs if member.epochs is None else member.epochs

    def epoch_length(self, member: Member) -> int:
        return -(-member.train_rows // self.batch_size)

    def length(self, member: Member) -> int:
        return self.epochs_of(member) * self.epoch_length(member)


@dataclass(frozen=True, eq=False)
class Training:
    """What came of it; member e is in place e of everything.

    ``scores`` has one number a member for each score, and is empty without test rows. ``history[name][e]`` holds a score
    of member e after each of its epochs. ``stack`` is None if the posteriors were not kept.
    """

    stack: Stack | None
    scores: Scores
    history: dict[str, list[Tensor]]
    diverged: Tensor


class Data(NamedTuple):
    """The rows of a chunk, standardised."""

    train: Rows
    tests: list[tuple[Tensor, Tensor]]
    scalings: list[Scaling]


def train_chunk(members: Sequence[Member], settings: Settings) -> Training:
    data = _prepare(members, settings)
    constants = _constants(members, settings.dtype)
    method, batch_size = settings.method, settings.batch_size
    lengths = [settings.length(m) for m in members]
    batches = minibatches(
        data.train,
        steps=lengths,
        seeds=[m.seed for m in members],
        lr=[method.lr if m.lr is None else m.lr for m in members],
        batch_size=batch_size,
        schedule=settings.schedule,
        stream=Stream.DROPOUT if method.drops_out else Stream.WEIGHTS,
    )
    engine = choose(settings.engine, settings.network, settings.likelihood)
    step = steps.make(method, engine, shapes_of(settings.network), batch_size, compiled=settings.compiled)
    state = steps.start(method, _first_weights(settings.network, members, settings.dtype), constants)
    curves: list[list[Scores]] = [[] for _ in members]
    for t, batch in enumerate(batches, start=1):
        state = step(state, batch, constants)
        if settings.history:
            for e, member in enumerate(members):
                epoch, rest = divmod(t, settings.epoch_length(member))
                if rest == 0 and t <= lengths[e]:
                    stack = _stack(members, settings, state, constants, data.scalings)[e]
                    curves[e].append(scores(stack, [data.tests[e]], settings.evaluation_samples, epoch=epoch))

    stack = _stack(members, settings, state, constants, data.scalings)
    final = scores(stack, data.tests, settings.evaluation_samples) if data.tests else {}
    names = list(final) if settings.history else []
    history = {name: [torch.cat([score[name] for score in curve]) for curve in curves] for name in names}
    return Training(stack if settings.keep else None, final, history, ~stack.finite)


def _prepare(members: Sequence[Member], settings: Settings) -> Data:
    likelihood, standardise = settings.likelihood, settings.standardise
    x_train, y_train, scalings, tests = [], [], [], []
    for member in members:
        x, y = rows_of(member, member.train, likelihood=likelihood, outputs=settings.outputs)
        scaling = Scaling.of(x, y, inputs=standardise, targets=standardise and likelihood == "gaussian")
        x_train.append(scaling.x(x).to(settings.dtype))
        y_train.append(scaling.y(y).to(settings.dtype))
        scalings.append(scaling)
        if member.test is not None:
            x, y = rows_of(member, member.test, likelihood=likelihood, outputs=settings.outputs)
            tests.append((scaling.x(x).to(settings.dtype), scaling.y(y).to(settings.dtype)))
    return Data(Rows(torch.cat(x_train), torch.cat(y_train), [len(x) for x in x_train]), tests, scalings)


def _constants(members: Sequence[Member], dtype: torch.dtype) -> steps.Constants:
    columns = [
        [m.prior_precision / m.temperature for m in members],
        [(m.train_rows if m.num_data is None else m.num_data) / m.temperature for m in members],
        [m.noise_precision for m in members],
        [m.dropout for m in members],
    ]
    return steps.Constants(*(torch.tensor(column, dtype=dtype) for column in columns))


def _first_weights(network: nn.Module, members: Sequence[Member], dtype: torch.dtype) -> Tensor:
    """What the module's own initialisation draws after ``torch.manual_seed(seed)``, or the member's ``init``, [E, P]."""
    drawn = copy.deepcopy(network)
    rows = []
    with torch.random.fork_rng(devices=[]):
        for member in members:
            torch.manual_seed(member.seed)
            for module in drawn.modules():
                if hasattr(module, "reset_parameters"):
                    module.reset_parameters()  # type: ignore[operator]
            own = member.init or {}
            rows.append(torch.cat([own.get(name, p).detach().flatten() for name, p in drawn.named_parameters()]))
    return torch.stack(rows).to(dtype)


def _stack(
    members: Sequence[Member],
    settings: Settings,
    state: Any,
    constants: steps.Constants,
    scalings: list[Scaling],
) -> Stack:
    shapes = shapes_of(settings.network)
    lam, N = constants.lam[:, None], constants.N[:, None]
    precision = settings.method.precision(state, Hyper(lam, lam, N))
    return Stack(
        network=settings.network,
        likelihood=settings.likelihood,
        mean=split(state.mu, shapes),
        precision=None if precision is None else split(precision, shapes),
        prior_precision=constants.lam if settings.method.has_prior else None,
        noise_precision=constants.tau,
        dropout=constants.dropout if settings.method.drops_out else None,
        seeds=[m.seed for m in members],
        scaling=Scaling(*(torch.stack(values) for values in zip(*scalings, strict=True))),
        engine=settings.engine,
    )
