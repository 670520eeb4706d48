"""Generated cases: hypothesis draws them from the seed of a case and shrinks those that fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis.strategies import SearchStrategy

from torture.case import Case, Failed, Outcome


def fuzz(case: Case, strategy: SearchStrategy[Any], check: Callable[[Any], str], examples: int) -> Outcome:
    """Check generated examples; ``check`` raises, or returns what became of the example, which is counted."""
    found = Outcome()

    @seed(case.random.randrange(2**63))
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(strategy)
    def run(example: Any) -> None:
        became = check(example)
        found.add("cases")
        found.add(became)

    try:
        run()
    except Failed as error:
        raise Failed(f"{error} [after {found.counts.get('cases', 0)} others]") from None
    return found
