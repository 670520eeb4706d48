"""A rule over the parameters of an optimizer: its letters, its state, its precision, its noise, its update.

The weights are treated as a few long vectors (``pieces``), by the same functions chunk by chunk or compiled (``kernels``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from vadam import rules
from vadam.optim.distributed import sharded_like
from vadam.optim.estimate import Grads
from vadam.optim.kernels import (
    Chunked,
    Compiled,
    number_fields,
    shift_,
    update_,
    update_with_magnitude_,
    updated_numbers,
    vector_fields,
)
from vadam.optim.noise import blocks
from vadam.optim.pieces import Group, Piece, pack
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

    def _trained(self) -> Iterator[Tensor]:
        return (p for p in self._all() if p.requires_grad)

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
        pieces = []
        for _, members in groupby(weights, key=lambda weight: id(weight[0])):
            weights_of_group = list(members)
            group = weights_of_group[0][0]
            rule = self._language(group).rule
            pieces += pack(group, rule, [(p, self._numbers(group, p, rule)) for _, p in weights_of_group])
        return pieces

    def _numbers(self, group: Group, p: Tensor, rule: ModuleType) -> dict[str, float]:
        names = number_fields(rule)
        if any(name not in self.state[p] for name in names):
            self._state(group, p, p.detach().to(storage_dtype(p)))
        return {name: self.state[p][name].item() for name in names}

    def _vectors(self, piece: Piece) -> list[Tensor]:
        """What the rule keeps for every weight, besides the mean."""
        states, names = [self.state[p] for p in piece.params], vector_fields(piece.rule)
        for p, stored in zip(piece.params, states, strict=True):
            if any(name not in stored for name in names):
                self._state(piece.group, p, p.detach().to(piece.dtype))
        return [piece.vector([stored[name] for stored in states]) for name in names]

    def _precision_letters(self, piece: Piece) -> tuple[ModuleType, dict[str, float], dict[str, float], float]:
        tempered = _floats(self._language(piece.group).tempered)
        return piece.rule, piece.numbers, tempered, float(piece.group.get("sampling_precision", 0.0))

    @property
    def _run(self) -> Chunked | Compiled:
        return Compiled() if self.compile else Chunked()

    # Perturbation and update -------------------------------------------------------------------------------------------------

    def _perturb(self, sample: Sample) -> None:
        """θ = μ + ε/√precision."""
        letters = [self._precision_letters(piece) for piece in sample.pieces]

        def shift(i: int, theta: Tensor, sign: float) -> None:
            vectors = self._vectors(sample.pieces[i])
            for part, eps in self._noise_of(sample, i):
                cut = [x[part] for x in vectors]
                rule, *numbers = letters[i]
                self._run(shift_, rule, [theta[part], eps, *cut], *numbers, sign * sample.sign)

        sample.perturb(shift, store_mean=self.store_mean)

    def _noise_of(self, sample: Sample, i: int) -> Iterator[tuple[slice, Tensor]]:
        """ε of the sample's piece i, block by block, without its sign: a function of its seed."""
        return blocks(sample.pieces[i], sample.seed, i, self._run)

    def _noise(self, sample: Sample) -> Grads:
        """ε of a sample for each parameter."""
        noise: Grads = {}
        for i, piece in enumerate(sample.pieces):
            whole = torch.cat([torch.empty(0), *(eps * sample.sign for _, eps in self._noise_of(sample, i))])
            noise |= {p: sharded_like(p, eps) for p, eps in zip(piece.params, piece.split(whole), strict=True)}
        return noise

    def _sampling_precision(self, group: Group, p: Tensor) -> Tensor:
        extra = group.get("sampling_precision", 0.0)
        return self._precision(group, p) + extra if extra else self._precision(group, p)

    def _apply(self, g: Grads, h: Grads, last: Sample | None) -> None:
        """The rule, piece by piece: those of the last sample as far as all of their weights have a gradient."""
        pieces = [piece for piece in last.pieces if all(p in g for p in piece.params)] if last is not None else []
        done = {p for piece in pieces for p in piece.params}
        pieces += self._pieces((group, p) for group, p in self._grouped() if p in g and p not in done)
        for piece in pieces:
            given = [p for p in piece.params if p in h]
            if not given or len(given) == len(piece.params):
                self._apply_to(piece, g, h)
            else:
                for p in piece.params:
                    self._apply_to(Piece(piece.group, [p], piece.rule, piece.numbers), g, h)

    def _apply_to(self, piece: Piece, g: Grads, h: Grads) -> None:
        _, _, tempered, rates = self._language(piece.group)
        letters = _floats({**tempered, **rates})
        mu, state = piece.vector(piece.params), self._vectors(piece)
        given = piece.params[0] in h
        estimates = [piece.vector([x[p] for p in piece.params]) for x in ((g, h) if given else (g,))]
        kernel = update_ if given else update_with_magnitude_
        self._run(kernel, piece.rule, [mu, *estimates, *state], piece.numbers, letters)
        piece.write(mu, piece.params)
        numbers = updated_numbers(piece.rule, piece.numbers, letters) if piece.numbers else {}
        states = [self.state[p] for p in piece.params]
        for name, vector in zip(vector_fields(piece.rule), state, strict=True):
            piece.write(vector, [stored[name] for stored in states])
        for stored in states:
            for name, value in numbers.items():
                stored[name].fill_(value)


def _floats(letters: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in letters.items()}
