"""What the paper says about the marginal value of adaptive methods."""

from typing import NamedTuple

from vadam_paper.experiments.char_lm.config import SCHEDULE
from vadam_paper.experiments.char_lm.records import NAMES, best, seeds
from vadam_paper.experiments.ledger import Claim, Evidence, Verdict, judged
from vadam_paper.experiments.results import Recorded, Results

MARGIN = 0.01
"""Nats a character. Runs that differ by no more count as comparable."""
FEWEST = 2
"""Seeds. They are too few for an interval, so each of them has to say it."""


class Compared(NamedTuple):
    """Test losses of methods, seed by seed, all after the same number of epochs."""

    seeds: list[int]
    epochs: int
    losses: dict[str, list[float]]

    def gaps(self, a: str, b: str) -> list[float]:
        return [left - right for left, right in zip(self.losses[a], self.losses[b], strict=True)]


def _comparable(results: Results) -> Evidence:
    run = results["text"]
    found = _compared(run, ("sgd", "vadagrad"))
    if isinstance(found, Evidence):
        return found
    gaps = found.gaps("vadagrad", "sgd")
    return judged(all(abs(gap) <= MARGIN for gap in gaps), f"{_losses(run, found)} VadaGrad minus SGD: {_words(gaps)}.")


def _worse(results: Results) -> Evidence:
    run = results["text"]
    found = _compared(run, ("sgd", "vadagrad", "adagrad", "adam"))
    if isinstance(found, Evidence):
        return found
    gaps = {(a, b): found.gaps(a, b) for a in ("adagrad", "adam") for b in ("sgd", "vadagrad")}
    parts = "; ".join(f"{NAMES[a]} minus {NAMES[b]} {_words(gap)}" for (a, b), gap in gaps.items())
    worse = all(gap > MARGIN for pair in gaps.values() for gap in pair)
    return judged(worse, f"{_losses(run, found)} {parts}.")


def _compared(run: Recorded, methods: tuple[str, ...]) -> Compared | Evidence:
    """Over the seeds that all have, as far as the shortest run goes; or what there is, where that is too little."""
    found = {method: seeds(run, method) for method in methods}
    common = sorted(set.intersection(*(set(numbers) for numbers in found.values())))
    if len(common) < FEWEST:
        there = "; ".join(f"{NAMES[m]} {', '.join(map(str, numbers)) or 'none'}" for m, numbers in found.items())
        return Evidence(Verdict.NOT_RUN, f"It takes {FEWEST} seeds that all methods have. Recorded seeds: {there}.")
    epochs = min(found[method][seed]["epochs"] for method in methods for seed in common)
    losses = {method: [best(found[method][seed], epochs=epochs) for seed in common] for method in methods}
    return Compared(common, epochs, losses)


def _losses(run: Recorded, found: Compared) -> str:
    length = run.config["stretches"][-1]
    parts = [f"{NAMES[method]} {sum(losses) / len(losses):.3f}" for method, losses in found.losses.items()]
    sooner = f" α falls {SCHEDULE / length:g} times sooner than Table 4 says." if length < SCHEDULE else ""
    return (
        f"Test loss in nats a character at the epoch with the best validation loss, {found.epochs} epochs of a schedule of {length}, "
        f"{len(found.seeds)} seeds: {', '.join(parts)}. Table 4’s K is read as one of {SCHEDULE} epochs, which no text says.{sooner}"
    )


def _words(gaps: list[float]) -> str:
    return f"{sum(gaps) / len(gaps):.3f} (by seed {', '.join(f'{gap:.3f}' for gap in gaps)})"


CLAIMS = (
    Claim("lm-sgd", "App. M", "VadaGrad generalises well and performs comparably to SGD.", _comparable),
    Claim("lm-adaptive", "App. M", "AdaGrad and Adam generalise worse than SGD and VadaGrad.", _worse),
)
