"""What the demo trains, in which order, and what has come out so far."""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from vadam.demo import ellipses, tabular, wave
from vadam.demo.ellipses import Ellipse
from vadam.demo.methods import METHODS
from vadam.demo.regression import Score, Tell, judge, learn
from vadam.demo.tabular import Intervals
from vadam.demo.wave import Band

RAW = "Vadam, raw input"
EXACT = "MF-Exact"


@dataclass(frozen=True)
class Size:
    """Steps of every training."""

    regression: int = 3000
    logistic: int = 5000


@dataclass
class Results:
    """By problem (wave, boston, concrete) and method; what was not reached is not there."""

    size: Size
    scores: dict[str, dict[str, Score]] = field(default_factory=dict)
    bands: dict[str, Band] = field(default_factory=dict)
    ellipses: dict[str, Ellipse] = field(default_factory=dict)
    intervals: dict[str, dict[str, Intervals]] = field(default_factory=dict)
    noise_precision: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    complete: bool = False

    @property
    def anything(self) -> bool:
        return bool(self.bands or self.ellipses or self.scores)

    def as_json(self) -> dict[str, Any]:
        return {
            "complete": self.complete,
            "seconds": self.seconds,
            "steps": asdict(self.size),
            "noise_precision": self.noise_precision,
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
    title: str
    cost: float
    run: Callable[[Results, Tell], None]


def jobs(size: Size) -> list[Job]:
    return [*_wave(size), *_ellipses(size), *(job for name in tabular.TABLES for job in _tabular(name, size))]


def run(results: Results, progress: Callable[[float, str], None]) -> None:
    """Fill ``results`` job by job; ``progress`` hears the share of the work that is done and what is being done."""
    todo = jobs(results.size)
    total, done = sum(job.cost for job in todo), 0.0
    started = time.perf_counter()

    def tell(share: float, job: Job) -> None:
        results.seconds = time.perf_counter() - started
        progress((done + share * job.cost) / total, job.title)

    for job in todo:
        tell(0.0, job)
        job.run(results, partial(tell, job=job))
        done += job.cost
    results.seconds, results.complete = time.perf_counter() - started, True


def _wave(size: Size) -> Iterator[Job]:
    problem = wave.problem()

    def binned(results: Results, tell: Tell, name: str) -> None:
        learned = learn(problem, METHODS[name], size.regression, tell)
        band, score = wave.band(learned), judge(problem, learned)
        results.bands[name] = band
        results.scores.setdefault("wave", {})[name] = score

    def raw(results: Results, tell: Tell) -> None:
        results.bands[RAW] = wave.band(learn(wave.raw(problem), METHODS["Vadam"], size.regression, tell))

    for name, method in METHODS.items():
        yield Job(f"a curve with a gap · {name}", method.cost * size.regression, partial(binned, name=name))
    yield Job(f"a curve with a gap · {RAW}", METHODS["Vadam"].cost * size.regression, raw)


def _ellipses(size: Size) -> Iterator[Job]:
    def job(results: Results, tell: Tell, name: str) -> None:
        results.ellipses.setdefault(EXACT, ellipses.exact())
        results.ellipses[name] = ellipses.learn(ellipses.RUNS[name], size.logistic, tell)

    for name in ellipses.RUNS:
        yield Job(f"logistic regression · {name}", METHODS["Vadam"].cost * size.logistic, partial(job, name=name))


def _tabular(name: str, size: Size) -> Iterator[Job]:
    def noise(results: Results, tell: Tell) -> None:
        results.noise_precision[name] = tabular.measure_noise(name, size.regression, tell)

    def job(results: Results, tell: Tell, method: str) -> None:
        problem = tabular.problem(name, results.noise_precision[name])
        learned = learn(problem, METHODS[method], size.regression, tell)
        intervals, score = tabular.intervals(problem, learned), judge(problem, learned)
        results.scores.setdefault(name, {})[method] = score
        results.intervals.setdefault(name, {})[method] = intervals

    yield Job(f"{name} · noise", METHODS["MAP-Adam"].cost * size.regression, noise)
    for method in METHODS:
        yield Job(f"{name} · {method}", METHODS[method].cost * size.regression, partial(job, method=method))
