"""A rule over the parameters of an optimizer: its letters, its state, its precision, its noise, its update.

The weights are treated as a few long vectors (``pieces``), by the same functions (``kernels``) chunk by chunk, compiled, or as native
loops (``native``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from vadam import rules
from vadam.optim.distributed import local, sharded_like
from vadam.optim.estimate import Grads, Norms
from vadam.optim.kernels import (
    Chunked,
    Engine,
    Kernel,
    Receipt,
    Task,
    deviate,
    number_fields,
    update,
    update_with_magnitude,
    updated_numbers,
    vector_fields,
)
from vadam.optim.native import engine
from vadam.optim.noise import blocks
from vadam.optim.pieces import Group, Piece, Slot, Stored, pack
from vadam.optim.resume import Resumable
from vadam.optim.sample import Sample, storage_dtype


class Letters(NamedTuple):
    """A parameter group in the language of a rule: ``init`` takes scale, ``precision`` tempered, ``update`` tempered and rates."""

    rule: ModuleType
    scale: dict[str, Any]
    tempered: dict[str, Any]
    rates: dict[str, Any]


class Ruled(Resumable):
    """A torch optimizer whose parameters are trained by a rule of ``vadam.rules``."""

    #: whether the rule makes sense for weights that are not sampled, where ĥ = ĝ∘ĝ; otherwise those are trained by Adam
    trains_points: ClassVar[bool] = False

    compile: bool
    store_mean: bool

    def _letters(self, group: Group) -> Letters:
        """The group's arguments under the names of the rule."""
        raise NotImplementedError

    def _start(self, group: Group) -> float:
        """q's precision at the start."""
        return group["init_precision"]

    def _language(self, group: Group) -> Letters:
        if group["deterministic"] and not self.trains_points:
            scale = {"N": group["num_data"], "lam": group["prior_precision"]}
            return Letters(rules.vadam, scale, scale, {"alpha": group["lr"], "gamma1": 0.9, "gamma2": 0.999})
        return self._letters(group)

    # The parameters ----------------------------------------------------------------------------------------------------------

    def _grouped(self) -> Iterator[tuple[Group, Tensor]]:
        return ((group, p) for group in self.param_groups for p in group["params"])

    def _all(self) -> Iterator[Tensor]:
        return (p for _, p in self._grouped())

    def _trained(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"] if p.requires_grad]

    def _sampled(self) -> Iterator[tuple[Group, Tensor]]:
        return ((g, p) for g in self.param_groups if not g["deterministic"] for p in g["params"] if p.requires_grad)

    def _state(self, group: Group, p: Tensor, mu: Tensor) -> Any:
        """The rule's state of one parameter, made at its first use."""
        rule, scale, *_ = self._language(group)
        stored = self.state[p]
        fields = rule.State._fields[1:]
        if any(name not in stored for name in fields):
            by_adam = group["deterministic"] and not self.trains_points
            start = group["prior_precision"] if by_adam else self._start(group)
            with torch.inference_mode(False):  # the state outlives a posterior that is asked for in inference mode
                fresh = rule.init(mu.clone(), init_precision=start, **scale)
                for name in fields:
                    value = getattr(fresh, name)
                    number = name in number_fields(rule)
                    stored.setdefault(name, torch.tensor(value, dtype=torch.float64) if number else value)
        return rule.State(mu, *(stored[name] for name in fields))

    def _precision(self, group: Group, p: Tensor) -> Tensor:
        letters = self._language(group)
        return letters.rule.precision(self._state(group, p, p.detach().to(storage_dtype(p))), **letters.tempered)

    def _pieces(self, weights: Iterable[tuple[Group, Tensor]]) -> list[Piece]:
        """The weights as pieces: those of the last time, if nothing about them has changed."""
        if not (weights := list(weights)):
            return []
        which = tuple(x for group, p in weights for x in (id(group), id(p), p.dtype, p.device, p.numel()))
        packed: dict[Any, list[Piece]] = self.__dict__.setdefault("_packed", {})
        if which in packed and self._are_current(packed[which]):
            return packed[which]
        pieces = []
        for _, members in groupby(weights, key=lambda weight: id(weight[0])):
            weights_of_group = list(members)
            group = weights_of_group[0][0]
            rule = self._language(group).rule
            pieces += pack(group, rule, [(p, self._numbers(group, p, rule)) for _, p in weights_of_group])
        for other in [key for key, known in packed.items() if not self._are_current(known)]:
            del packed[other]  # it holds a state that is no longer ours
        if len(packed) > 8:
            packed.clear()
        packed[which] = pieces
        return pieces

    def _are_current(self, pieces: list[Piece], *, again: bool = False) -> bool:
        """Whether the state is still what the pieces know of it; ``again``: in one step, where its numbers are not looked at twice."""
        rules = {id(group): self._language(group).rule for group in self.param_groups}
        for piece in pieces:
            found, stored = [self.state.get(p, {}) for p in piece.params], piece.stored
            same_rule = piece.rule is rules.get(id(piece.group))
            if not same_rule or stored is None or not stored.is_found_in(found, None if again else piece.numbers):
                return False
        return True

    def _numbers(self, group: Group, p: Tensor, rule: ModuleType) -> dict[str, float]:
        names = number_fields(rule)
        if any(name not in self.state[p] for name in names):
            self._state(group, p, p.detach().to(storage_dtype(p)))
        return {name: self.state[p][name].item() for name in names}

    def _stored(self, piece: Piece) -> Stored:
        """What the state holds of a piece, besides the mean."""
        if piece.stored is None:
            for p in piece.params:
                self._state(piece.group, p, p.detach().to(piece.dtype))
            states = [self.state[p] for p in piece.params]
            piece.stored = Stored(states, vector_fields(piece.rule), number_fields(piece.rule))
        return piece.stored

    def _precision_letters(self, piece: Piece) -> list[Any]:
        """The numbers of a kernel that needs the precision of a sample."""
        tempered = _floats(self._language(piece.group).tempered)
        return [piece.numbers, tempered, float(piece.group.get("sampling_precision", 0.0))]

    def _engine(self, pieces: list[Piece]) -> Engine:
        """Where parameters share their memory, what is written for one is read for the next: piece after piece, then."""
        places = [local(p).data_ptr() for piece in pieces for p in piece.params if p.numel()] if self.compile else []
        return engine(self.compile and len(set(places)) == len(places))

    # Perturbation and update -------------------------------------------------------------------------------------------------

    def _perturb(self, sample: Sample) -> None:
        """θ = μ + ε/√precision."""
        run = self._engine(sample.pieces)
        slots = [self._stored(piece).vectors for piece in sample.pieces]
        letters = [self._precision_letters(piece) for piece in sample.pieces]

        def task(i: int, mu: Slot, targets: list[Slot], sign: float, receipt: Receipt | None = None) -> Task:
            return Task(sample.pieces[i], [mu, *slots[i]], targets, [*letters[i], sign * sample.sign], i, receipt)

        def shift(i: int, theta: Tensor, sign: float) -> None:
            run(deviate, [task(i, theta, [theta], sign)], sample.seed)

        def at_once(means: list[Tensor | None], receipt: Receipt) -> None:
            tasks = [
                task(i, piece.params, [piece.params] if mean is None else [piece.params, mean], 1.0, receipt)
                for i, (piece, mean) in enumerate(zip(sample.pieces, means, strict=True))
            ]
            run(deviate, tasks, sample.seed)

        one_call = len({piece.rule for piece in sample.pieces}) == 1
        if one_call and all(run.takes(piece) for piece in sample.pieces):
            sample.engine = run
            sample.perturb_at_once(shift, at_once, store_mean=self.store_mean)
        else:
            sample.perturb(shift, store_mean=self.store_mean)

    def _norms(self, *estimates: Grads) -> list[Norms]:
        """Of each gradient or curvature, all in one call; a norm is finite only if the squares are."""
        given = [[(p, x) for p, x in estimate.items() if x.numel()] for estimate in estimates]
        tensors = [x if x.dtype is torch.float32 else x.to(storage_dtype(x)) for some in given for _, x in some]
        norms = iter(engine(self.compile).norms(tensors))
        return [{p: next(norms) for p, _ in some} for some in given]

    def _noise(self, sample: Sample) -> Grads:
        """ε of a sample for each parameter, with its sign: a function of its seed."""
        noise: Grads = {}
        for i, piece in enumerate(sample.pieces):
            eps = [x * sample.sign for _, x in blocks(piece, sample.seed, i, Chunked().draw)]
            whole = torch.cat([torch.empty(0, dtype=piece.dtype, device=piece.params[0].device), *eps])
            noise |= {p: sharded_like(p, x) for p, x in zip(piece.params, piece.split(whole), strict=True)}
        return noise

    def _sampling_precision(self, group: Group, p: Tensor) -> Tensor:
        extra = group.get("sampling_precision", 0.0)
        return self._precision(group, p) + extra if extra else self._precision(group, p)

    def _apply(self, g: Grads, h: Grads, last: Sample | None) -> None:
        """The rule: for the pieces of the last sample as far as all of their weights have a gradient, and for those of the others.

        Where the weights still hold the sample, the means are read from where they are kept, or restored first.
        """
        pieces = [piece for piece in last.pieces if all(p in g for p in piece.params)] if last is not None else []
        pieces = pieces if self._are_current(pieces, again=True) else []
        done = {p for piece in pieces for p in piece.params}
        rest = [(group, p) for group, p in self._grouped() if p in g and p not in done] if len(done) < len(g) else []
        others = self._pieces(rest)
        moved_by = None if last is None else last.engine
        run = moved_by if moved_by is not None and not others else self._engine(pieces + others)
        given = [p in h for piece in pieces for p in piece.params]
        alike = run is moved_by and (all(given) or not any(given))
        kept = last.means_for_update(pieces) if last is not None and alike else None
        if kept is None and last is not None:
            last.restore()
        tasks: dict[Kernel, list[Task]] = {update: [], update_with_magnitude: []}
        for i, piece in enumerate(pieces + others):
            mu, receipt = (kept[0][i], kept[1]) if kept is not None and i < len(pieces) else (None, None)
            whole = mu is not None or sum(p in h for p in piece.params) in (0, len(piece.params))
            for part in (
                [piece] if whole else [Piece(piece.group, [p], piece.rule, piece.numbers) for p in piece.params]
            ):
                kernel = update if part.params[0] in h else update_with_magnitude
                tasks[kernel].append(self._update_task(part, g, h, mu, receipt))
        for kernel, of_kernel in tasks.items():
            run(kernel, of_kernel)
        for task in (*tasks[update], *tasks[update_with_magnitude]):
            self._advance(task.piece, task.numbers[1])

    def _update_task(self, piece: Piece, g: Grads, h: Grads, mu: Tensor | None, receipt: Receipt | None) -> Task:
        _, _, tempered, rates = self._language(piece.group)
        state: list[Slot] = self._stored(piece).vectors
        estimates: list[Slot] = [[x[p] for p in piece.params] for x in (g, h) if piece.params[0] in x]
        numbers = [piece.numbers, _floats({**tempered, **rates})]
        mean = piece.params if mu is None else mu
        return Task(piece, [mean, *estimates, *state], [piece.params, *state], numbers, receipt=receipt)

    def _advance(self, piece: Piece, letters: Any) -> None:
        """The numbers of the state."""
        if piece.numbers:
            piece.numbers = updated_numbers(piece.rule, piece.numbers, letters)
            self._stored(piece).write(piece.numbers)


def _floats(letters: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in letters.items()}
