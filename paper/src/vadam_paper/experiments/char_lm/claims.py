"""The paper's claims about the marginal value of adaptive methods."""

from typing import NamedTuple

from vadam_paper.experiments.char_lm import EXPERIMENT
from vadam_paper.experiments.char_lm.config import COMPRESSED, SCHEDULE
from vadam_paper.experiments.char_lm.records import NAMES, best, seeds
from vadam_paper.experiments.intervals import Interval, student
from vadam_paper.experiments.ledger import Claim, Evidence, Verdict
from vadam_paper.experiments.progress import progress
from vadam_paper.experiments.results import Recorded, Results
from vadam_paper.experiments.verdicts import above, every, within

MARGIN = 0.01
"""Largest difference, in nats per character, of runs that count as comparable."""
FEWEST = 2
"""Minimum number of seeds for an interval."""
FULL_RATE = 40
"""Epochs at full rate that Table 4 gives VadaGrad and Adam: a verdict needs more."""
LONG = "long"
COMMAND = f"vadam run char-lm --preset {LONG}: 80 epochs of Table 4's schedule, two seeds"
PRICE = "1 to 1.5 minutes an epoch, about 8 processor hours a pair"
"""Time of a run that has no rows yet, on one core."""


class Compared(NamedTuple):
    """Test losses of methods, seed by seed, all after the same number of epochs."""

    seeds: list[int]
    epochs: int
    losses: dict[str, list[float]]

    def gap(self, a: str, b: str) -> Interval:
        """Return the mean difference over the common seeds, with Student's interval."""
        return student([left - right for left, right in zip(self.losses[a], self.losses[b], strict=True)])


def _comparable(results: Results) -> Evidence:
    found = _compared(results, ("sgd", "vadagrad"))
    if isinstance(found, Evidence):
        return found
    gap = found.gap("vadagrad", "sgd")
    return _judged(results, found, within(gap, MARGIN), f"VadaGrad minus SGD, 95 %: {gap}; {MARGIN:g} is comparable.")


def _worse(results: Results) -> Evidence:
    found = _compared(results, ("sgd", "vadagrad", "adagrad", "adam"))
    if isinstance(found, Evidence):
        return found
    gaps = {(a, b): found.gap(a, b) for a in ("adagrad", "adam") for b in ("sgd", "vadagrad")}
    parts = "; ".join(f"{NAMES[a]} minus {NAMES[b]} {gap}" for (a, b), gap in gaps.items())
    return _judged(results, found, every(*(above(gap, MARGIN) for gap in gaps.values())), f"95 %: {parts}.")


def _judged(results: Results, found: Compared, verdict: Verdict, text: str) -> Evidence:
    """Give a verdict only on Table 4's own schedule, once the rates of all methods have fallen."""
    run = results["text"]
    said = f"{_losses(run, found)} {text}"
    if run.preset in COMPRESSED or found.epochs <= FULL_RATE:
        return Evidence(
            Verdict.UNDECIDED, f"{said} Not a test of the claim: {_why_not(run, found)}.", _long_run(results)
        )
    return Evidence(verdict, said, _long_run(results) if verdict == Verdict.UNDECIDED else "")


def _long_run(results: Results) -> str:
    """Return the command that decides, and how far it is."""
    so_far = [str(progress(EXPERIMENT, run)) for run in results.runs if run.preset == LONG]
    return f"{COMMAND}. So far {so_far[0]}." if so_far else f"{COMMAND}. Nothing of it is recorded yet; {PRICE}."


def _why_not(run: Recorded, found: Compared) -> str:
    if run.preset in COMPRESSED:
        sooner = SCHEDULE / run.config["stretches"][-1]
        return f"α falls {sooner:g} times sooner than Table 4 says, which gives VadaGrad {FULL_RATE / sooner:g} epochs at its full rate"
    return f"after {found.epochs} epochs the rates of VadaGrad and Adam have not fallen yet"


def _compared(results: Results, methods: tuple[str, ...]) -> Compared | Evidence:
    """Return the losses over the seeds that all methods have, up to the length of the shortest run.

    With too few common seeds, return the evidence "not run" with the recorded seeds.
    """
    found = {method: seeds(results["text"], method) for method in methods}
    common = sorted(set.intersection(*(set(numbers) for numbers in found.values())))
    if len(common) < FEWEST:
        there = "; ".join(f"{NAMES[m]} {', '.join(map(str, numbers)) or 'none'}" for m, numbers in found.items())
        return Evidence(
            Verdict.NOT_RUN, f"Recorded seeds: {there}.", f"{FEWEST} seeds that all methods have: {_long_run(results)}"
        )
    epochs = min(found[method][seed]["epochs"] for method in methods for seed in common)
    losses = {method: [best(found[method][seed], epochs=epochs) for seed in common] for method in methods}
    return Compared(common, epochs, losses)


def _losses(run: Recorded, found: Compared) -> str:
    length = run.config["stretches"][-1]
    parts = [f"{NAMES[method]} {sum(losses) / len(losses):.3f}" for method, losses in found.losses.items()]
    schedule = f"a schedule of {SCHEDULE} pressed into {length}" if run.preset in COMPRESSED else "Table 4's schedule"
    return (
        f"Test loss in nats a character at the epoch with the best validation loss, {found.epochs} epochs of {schedule}, "
        f"{len(found.seeds)} seeds: {', '.join(parts)}."
    )


def _cifar(results: Results) -> Evidence:
    return Evidence(
        Verdict.NOT_RUN,
        "The paper has this one sentence, without network, settings or numbers.",
        "AdaGrad and VadaGrad on CIFAR-10 with a network of our choice: hundreds of processor hours.",
    )


CLAIMS = (
    Claim("lm-sgd", "App. M", "VadaGrad generalises well and performs comparably to SGD.", _comparable),
    Claim("lm-adaptive", "App. M", "AdaGrad and Adam generalise worse than SGD and VadaGrad.", _worse),
    Claim("lm-cifar", "App. M", "On CIFAR-10 the improvement by VadaGrad is minor.", _cifar),
)
