"""Train E networks as one stack, step by step."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from vadam.ensemble import step as steps
from vadam.ensemble.engine import check_dropout, choose
from vadam.ensemble.layout import Shapes, shapes_of, split
from vadam.ensemble.members import Member, Scaling, copied, rows_of, weights_of
from vadam.ensemble.method import Method
from vadam.ensemble.minibatches import Batch, Rows, Schedule, minibatches
from vadam.ensemble.noise import Stream
from vadam.ensemble.stack import Stack
from vadam.gaussian import MeanFieldGaussian
from vadam.gaussian.named_tensors import check_shapes
from vadam.likelihoods import CONTINUOUS
from vadam.module_state import attributes_kept
from vadam.seeding import seeded


@dataclass(frozen=True, eq=False)
class Settings:
    """Holds the settings with which every member of a stack is trained; ``train`` describes the arguments."""

    network: nn.Module
    method: Method
    likelihood: str = "gaussian"
    epochs: int = 40
    batch_size: int = 32
    standardise: bool = True
    schedule: Schedule | None = None
    engine: str = "auto"
    compiled: bool = False
    dtype: torch.dtype = torch.float32
    most_rows: int | None = None
    """Largest number of rows of all members in all stacks, so that no bit depends on the others in a stack; None: of this one."""

    def check(self) -> None:
        """Raise ValueError if the network does not fit the engine, the likelihood or the method, or the method not the minibatches."""
        choose(self.engine, self.network, self.likelihood)
        M = self.method.settings.get("batch_size")
        if M not in (None, self.batch_size):
            raise ValueError(
                f"the method has batch_size={M!r}, but a step of the training sees batch_size={self.batch_size!r} examples: give both the "
                f"same number, or the variances are wrong by the ratio"
            )
        frozen = [name for name, p in self.network.named_parameters() if not p.requires_grad]
        if frozen:
            raise ValueError(
                f"{frozen[0]!r} has requires_grad=False, but every weight of a stack is trained: register it as a buffer, or train one "
                f"network by an optimizer"
            )
        if self.method.drops_out:
            check_dropout(self.network)
        for name, module in self.network.named_modules():
            if module.training and (
                isinstance(module, _BatchNorm) or (isinstance(module, _DropoutNd) and module.p > 0)
            ):
                raise ValueError(
                    f"{name!r} is a {type(module).__name__} in training mode, but the networks of a stack must be functions of their "
                    "weights and inputs: leave it out, call network.eval(), or train one network by an optimizer"
                )

    def check_member(self, member: Member, name: str) -> None:
        """Raise ValueError if a member's rows or numbers are wrong."""
        member.check(name)
        self.method.check(member, name)
        if member.dropout and not self.method.drops_out:
            raise ValueError(
                f"dropout={member.dropout!r} of {name} has no effect: {self.method!r} drops nothing out. Leave it out, or give the method "
                f"drops_out=True"
            )
        shapes = shapes_of(self.network)
        for weight, value in (member.init or {}).items():
            if shapes.get(weight) != tuple(value.shape):
                raise ValueError(
                    f"init of {name} has {weight!r} of shape {list(value.shape)}, which does not fit the network: its weights are "
                    + ", ".join(f"{own} {list(shape)}" for own, shape in shapes.items())
                )

    def epoch_length(self, member: Member) -> int:
        """Return the number of steps in an epoch of the member."""
        return -(-member.train_rows // self.batch_size)

    def length(self, member: Member) -> int:
        """Return the number of steps in the whole training of the member."""
        return (self.epochs if member.epochs is None else member.epochs) * self.epoch_length(member)


class Trainer:
    """A stack of networks in training, for custom loops.

    >>> from vadam.ensemble import MLP
    >>> x = torch.linspace(-2, 2, 50).unsqueeze(1)
    >>> members = [Member(x, x.sin(), noise_precision=100.0, seed=seed) for seed in range(3)]
    >>> trainer = Trainer(members, Settings(MLP(1, 20, 1), Method("vadam", lr=0.01), epochs=2))
    >>> for batch in trainer.batches():
    ...     trainer.step(batch)
    >>> len(trainer.stack)
    3

    Attributes:
        state: the rule's state, tensors [E, P] and [E, 1].
        tests: the standardised test rows of every member; empty if there are none.
    """

    def __init__(self, members: Sequence[Member], settings: Settings) -> None:
        settings.check()
        self.members, self.settings = list(members), settings
        for e, member in enumerate(self.members):
            settings.check_member(member, f"member {e}")
        self._continues = any(member.earlier is not None for member in self.members)
        self._rows, self.tests, self._scalings = _standardised(self.members, settings)
        method, shapes, dtype = settings.method, shapes_of(settings.network), settings.dtype
        self._constants = steps.Constants(
            {**method.numbers(self.members, dtype), **_earlier_posteriors(method, self.members, shapes, dtype)},
            torch.tensor([m.noise_precision for m in self.members], dtype=dtype),
            torch.tensor([m.dropout for m in self.members], dtype=dtype),
        )
        engine = choose(settings.engine, settings.network, settings.likelihood)
        self._examples = min(settings.batch_size, settings.most_rows or max(self._rows.counts))
        self._step = steps.make(method, engine, shapes, self._examples, compiled=settings.compiled)
        _keep_freed_memory()
        self.state = steps.start(method, _first_weights(settings.network, self.members, dtype), self._constants)

    def batches(self, first: int = 0) -> Iterator[Batch]:
        """Yield the minibatches of every step from ``first`` on."""
        every = minibatches(
            self._rows,
            steps=[self.settings.length(m) for m in self.members],
            seeds=[m.seed for m in self.members],
            lr=[self.settings.method.values_of(m)["lr"] for m in self.members],
            batch_size=self._examples,
            schedule=self.settings.schedule,
            stream=Stream.DROPOUT if self.settings.method.drops_out else Stream.WEIGHTS,
        )
        return islice(every, first, None)

    def step(self, batch: Batch) -> None:
        """Take one step of every member."""
        self.state = self._step(self.state, batch, self._constants)

    @property
    def stack(self) -> Stack:
        """Return the current posteriors."""
        method, shapes = self.settings.method, shapes_of(self.settings.network)
        rule_args = method.rule_args(self._constants.numbers)
        precision = method.precision(self.state, rule_args)
        has_prior = method.has_prior and not self._continues
        temperatures = [float(method.values_of(m).get("temperature", 1.0)) for m in self.members]
        temperature = torch.tensor(temperatures, dtype=self.settings.dtype)
        return Stack(
            network=self.settings.network,
            likelihood=self.settings.likelihood,
            mean=split(self.state.mu, shapes),
            precision=None if precision is None else split(precision, shapes),
            prior_precision=rule_args["lam"].flatten() * temperature if has_prior else None,
            noise_precision=self._constants.noise_precision,
            dropout=self._constants.dropout if method.drops_out else None,
            seeds=[m.seed for m in self.members],
            scaling=Scaling(*(torch.stack(values) for values in zip(*self._scalings, strict=True))),
            engine=self.settings.engine,
            prior_mean=float(method.settings.get("prior", 0.0)) if has_prior else 0.0,
            temperature=temperature,
        )

    def state_dict(self) -> dict[str, Tensor]:
        """Return the rule's state by the names of its fields."""
        return dict(self.state._asdict())

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a state that ``state_dict`` returned; ``batches(first=...)`` skips the steps taken."""
        self.state = type(self.state)(*(state[name] for name in self.state._fields))


def _keep_freed_memory() -> None:
    """Let glibc keep freed blocks of up to 16 MB, as it does once it has freed one.

    Otherwise the memory of a step is new in every step, at the cost of a page fault for every page.
    """
    torch.empty(2**22)


def _standardised(members: list[Member], settings: Settings) -> tuple[Rows, list[tuple[Tensor, Tensor]], list[Scaling]]:
    """Return the training rows, the test rows and the scalings of all members."""
    likelihood, outputs = settings.likelihood, _outputs(settings.network, members[0])
    x_train, y_train, scalings, tests = [], [], [], []
    for member in members:
        x, y = rows_of(member, member.train, likelihood=likelihood, outputs=outputs)
        scaling = Scaling.of(
            x, y, inputs=settings.standardise, targets=settings.standardise and likelihood in CONTINUOUS
        )
        x_train.append(scaling.x(x).to(settings.dtype))
        y_train.append(scaling.y(y).to(settings.dtype))
        scalings.append(scaling)
        if member.test is not None:
            x, y = rows_of(member, member.test, likelihood=likelihood, outputs=outputs)
            tests.append((scaling.x(x).to(settings.dtype), scaling.y(y).to(settings.dtype)))
    weights = torch.cat([weights_of(member, settings.dtype) for member in members])
    return Rows(torch.cat(x_train), torch.cat(y_train), weights, [len(x) for x in x_train]), tests, scalings


def _outputs(network: nn.Module, member: Member) -> int:
    """Return the number of outputs, found by trying one row."""
    row = copied(member.x[:1]).to(next(network.parameters()).dtype)
    try:
        with torch.no_grad(), attributes_kept(network):
            output = network(row)
    except Exception as error:
        raise ValueError(f"the network cannot take rows of shape {list(row.shape[1:])}: {error}") from error
    return 1 if output.dim() == 1 else output.shape[-1]


def _earlier_posteriors(method: Method, members: list[Member], shapes: Shapes, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return the prior's mean and precision of every weight, [E, P], where members go on from an earlier posterior."""
    if not any(member.earlier is not None for member in members):
        return {}
    earlier = [member.earlier for member in members if member.earlier is not None]
    if len(earlier) < len(members) or not method.has_prior or not method.has_posterior:
        raise ValueError("an earlier posterior must be given to all members or none, and needs a rule with a prior")
    temperatures = [float(method.values_of(member)["temperature"]) for member in members]
    for e, (post, T) in enumerate(zip(earlier, temperatures, strict=True)):
        _check_earlier(f"the earlier posterior of member {e}", post, T, shapes)
    temperature = torch.tensor(temperatures, dtype=dtype)[:, None]
    mean, precision = (
        torch.stack([torch.cat([getattr(post, part)[name].flatten() for name in shapes]) for post in earlier]).to(dtype)
        for part in ("mean", "precision")
    )
    start = {"init_precision": precision} if "init_precision" in method.settings else {}
    return {"prior": mean, "prior_precision": precision * temperature, **start}


def _check_earlier(name: str, post: MeanFieldGaussian, T: float, shapes: Shapes) -> None:
    """Raise ValueError unless a posterior is one of the network's weights, all sampled, at the member's temperature."""
    check_shapes(name, post.mean, {weight: torch.Size(shape) for weight, shape in shapes.items()})
    if post.pruned:
        raise ValueError(
            f"{name} is pruned, but its weights would be sampled again: give the one that prune() was called on"
        )
    for weight, total in post.temperature.items():
        own = total / post.tempered_by.get(weight, 1.0)
        if not (math.isclose(T, total, rel_tol=1e-6) or math.isclose(T, own, rel_tol=1e-6)):
            raise ValueError(
                f"{name} has the temperature {own:g}, but the member {T:g}: give it Member(temperature={own:g})"
            )


def _first_weights(network: nn.Module, members: list[Member], dtype: torch.dtype) -> Tensor:
    """Return the member's ``init``, or what the module itself draws after ``torch.manual_seed(seed)``, [E, P]."""
    drawn = copy.deepcopy(network)
    rows = []
    for member in members:
        with seeded(member.seed):
            for module in drawn.modules():
                if hasattr(module, "reset_parameters"):
                    module.reset_parameters()  # type: ignore[operator]
            for module in reversed([*drawn.modules()]):  # what attention draws itself comes after its layers
                if isinstance(module, nn.MultiheadAttention | nn.Transformer):
                    module._reset_parameters()
        own = member.earlier.mean if member.earlier is not None else member.init or {}
        rows.append(torch.cat([own.get(name, p).detach().flatten() for name, p in drawn.named_parameters()]))
    return torch.stack(rows).to(dtype)
