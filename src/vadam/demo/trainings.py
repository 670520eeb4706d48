"""The list of trainings of the demo, and their results so far."""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from vadam.demo import digits, ellipses, tabular, wave
from vadam.demo.digits import Doubt
from vadam.demo.ellipses import Ellipse
from vadam.demo.methods import METHODS
from vadam.demo.regression import ReportProgress, Score, evaluate, learn
from vadam.demo.tabular import Intervals
from vadam.demo.wave import Band

RAW = "Vadam, raw input"
EXACT = "MF-Exact"
DIGITS_COST = 15.0
"""Price of a step on the digits, in steps of Adam on a table."""


@dataclass(frozen=True)
class Size:
    """Numbers of training steps."""

    digits: int = 1000
    regression: int = 3000
    logistic: int = 5000


@dataclass
class Results:
    """Results by problem (digits, wave, boston, concrete) and method; a training that was not reached has no entry."""

    size: Size
    digits: dict[str, Doubt] = field(default_factory=dict)
    scores: dict[str, dict[str, Score]] = field(default_factory=dict)
    bands: dict[str, Band] = field(default_factory=dict)
    ellipses: dict[str, Ellipse] = field(default_factory=dict)
    intervals: dict[str, dict[str, Intervals]] = field(default_factory=dict)
    noise_precision: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    complete: bool = False

    @property
    def anything(self) -> bool:
        return bool(self.digits or self.bands or self.ellipses or self.scores)

    def as_json(self) -> dict[str, Any]:
        return {
            "complete": self.complete,
            "seconds": self.seconds,
            "steps": asdict(self.size),
            "noise_precision": self.noise_precision,
            "digits": {method: doubt.as_json() for method, doubt in self.digits.items()},
            "scores": {
                problem: {method: asdict(score) for method, score in by_method.items()}
                for problem, by_method in self.scores.items()
            },
            "gap": {
                method: {"among_data": band.among_data, "in_gap": band.in_gap, "beyond": band.beyond}
                for method, band in self.bands.items()
            },
            "symmetric_kl": {name: ellipse.divergence for name, ellipse in self.ellipses.items()},
        }


@dataclass(frozen=True)
class Job:
    """One training: its title, its expected cost, and the function that runs it."""

    title: str
    cost: float
    run: Callable[[Results, ReportProgress], None]


def jobs(size: Size) -> list[Job]:
    """Return all trainings in their order."""
    tables = (job for name in tabular.TABLES for job in _tabular(name, size))
    return [*_digits(size), *_wave(size), *_ellipses(size), *tables]


def run(results: Results, progress: Callable[[float, str], None]) -> None:
    """Run all jobs and fill ``results``; call ``progress`` with the fraction that is done and the current job."""
    todo = jobs(results.size)
    total, done = sum(job.cost for job in todo), 0.0
    started = time.perf_counter()

    def report(share: float, job: Job) -> None:
        results.seconds = time.perf_counter() - started
        progress((done + share * job.cost) / total, job.title)

    for job in todo:
        report(0.0, job)
        job.run(results, partial(report, job=job))
        done += job.cost
    results.seconds, results.complete = time.perf_counter() - started, True


def _digits(size: Size) -> Iterator[Job]:
    def job(results: Results, report: ReportProgress, method: str) -> None:
        results.digits[method] = digits.learn(method, size.digits, report)

    for method in digits.METHODS:
        yield Job(f"digits · {method}", DIGITS_COST * size.digits, partial(job, method=method))


def _wave(size: Size) -> Iterator[Job]:
    problem = wave.problem()

    def binned(results: Results, report: ReportProgress, name: str) -> None:
        learned = learn(problem, METHODS[name], size.regression, report)
        band, score = wave.band(learned), evaluate(problem, learned)
        results.bands[name] = band
        results.scores.setdefault("wave", {})[name] = score

    def raw(results: Results, report: ReportProgress) -> None:
        results.bands[RAW] = wave.band(learn(wave.raw(problem), METHODS["Vadam"], size.regression, report))

    for name, method in METHODS.items():
        yield Job(f"a curve with a gap · {name}", method.cost * size.regression, partial(binned, name=name))
    yield Job(f"a curve with a gap · {RAW}", METHODS["Vadam"].cost * size.regression, raw)


def _ellipses(size: Size) -> Iterator[Job]:
    def job(results: Results, report: ReportProgress, name: str) -> None:
        results.ellipses.setdefault(EXACT, ellipses.exact())
        results.ellipses[name] = ellipses.learn(ellipses.RUNS[name], size.logistic, report)

    for name in ellipses.RUNS:
        yield Job(f"logistic regression · {name}", METHODS["Vadam"].cost * size.logistic, partial(job, name=name))


def _tabular(name: str, size: Size) -> Iterator[Job]:
    def noise(results: Results, report: ReportProgress) -> None:
        results.noise_precision[name] = tabular.measure_noise(name, size.regression, report)

    def job(results: Results, report: ReportProgress, method: str) -> None:
        problem = tabular.problem(name, results.noise_precision[name])
        learned = learn(problem, METHODS[method], size.regression, report)
        intervals, score = tabular.intervals(problem, learned), evaluate(problem, learned)
        results.scores.setdefault(name, {})[method] = score
        results.intervals.setdefault(name, {})[method] = intervals

    yield Job(f"{name} · noise", METHODS["MAP-Adam"].cost * size.regression, noise)
    for method in METHODS:
        yield Job(f"{name} · {method}", METHODS[method].cost * size.regression, partial(job, method=method))
