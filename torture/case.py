"""A kind of torture has parts, a part has cases. A case is repeatable: its seed, part and number fix all its random choices."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class Case:
    """One case: what its random choices follow from, and an empty folder of its own.

    ``amount`` is how many units the part still wants; only parts that run as one long case look at it.
    """

    kind: str
    part: str
    number: int
    seed: int
    folder: Path
    amount: int = 1

    @cached_property
    def random(self) -> random.Random:
        return random.Random(f"{self.seed}/{self.kind}/{self.part}/{self.number}")


@dataclass
class Outcome:
    """The findings of several cases: counts are added up, the largest of each figure is kept, a note is kept once."""

    counts: dict[str, int] = field(default_factory=dict)
    worst: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, more: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + more

    def figure(self, name: str, value: float) -> None:
        self.worst[name] = max(value, self.worst.get(name, value))

    def merge(self, other: Outcome) -> None:
        for name, more in other.counts.items():
            self.add(name, more)
        for name, value in other.worst.items():
            self.figure(name, value)
        self.notes += [note for note in other.notes if note not in self.notes]


class Failed(AssertionError):
    """Raised by a case when a promise does not hold."""


@dataclass(frozen=True)
class Part:
    """A function that runs one case and raises if a promise does not hold.

    ``share`` is its part of the kind's count, ``cases_per_process`` how many cases a new process runs, ``seconds`` how long one
    case may take before it counts as hung. A part with ``one_case`` runs as a single case of the whole amount, at ``per_second``
    units a second or faster.
    """

    run: Callable[[Case], Outcome]
    share: float = 1.0
    cases_per_process: int = 1
    seconds: float = 600.0
    one_case: bool = False
    per_second: float = 1.0

    def time_limit(self, amount: int) -> float:
        """Return after how many seconds a case counts as hung."""
        return self.seconds + (amount / self.per_second if self.one_case else 0.0)


@dataclass(frozen=True)
class Break:
    """A line that is broken on purpose in a copy of the code, and the part that must notice."""

    path: str
    line: str
    broken: str
    part: str
    would: str  # what would happen to a user


@dataclass(frozen=True)
class Kind:
    """A kind of torture: what is promised, what is counted, and how many units ``make torture`` and ``--full`` ask for."""

    name: str
    promise: str
    unit: str
    count: int
    full: int
    parts: dict[str, Part]
    warm: Callable[[], object] = lambda: None  # imports, once, in the process that all others are forked from
    grows: bool = True  # False if a longer run has nothing to add
    breaks: tuple[Break, ...] = ()

    def targets(self, count: int, only: Iterable[str] = ()) -> dict[str, int]:
        """Return how many units each part is to reach."""
        chosen = {name: part for name, part in self.parts.items() if not only or name in only}
        whole = sum(part.share for part in chosen.values())
        return {name: max(1, -int(-count * part.share // whole)) for name, part in chosen.items()}
