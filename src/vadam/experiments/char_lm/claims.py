"""What the paper says about the marginal value of adaptive methods."""

from vadam.experiments.char_lm.reading import NAMES, best, runs
from vadam.experiments.evidence import Interval, difference
from vadam.experiments.ledger import Claim, Evidence, Verdict, judged
from vadam.experiments.results import Recorded, Results

MARGIN = 0.01
"""Nats a character. Runs that differ by no more count as comparable."""


def _comparable(results: Results) -> Evidence:
    run = results["text"]
    if lacking := _missing(run, ("sgd", "vadagrad")):
        return Evidence(Verdict.NOT_RUN, lacking)
    gap = _gap(run, "vadagrad", "sgd")
    return judged(gap.high <= MARGIN, f"{_losses(run, ('vadagrad', 'sgd'))} VadaGrad minus SGD: {_words(gap)}.")


def _worse(results: Results) -> Evidence:
    run = results["text"]
    if lacking := _missing(run, ("sgd", "vadagrad", "adagrad", "adam")):
        return Evidence(Verdict.NOT_RUN, lacking)
    gaps = {(a, b): _gap(run, a, b) for a in ("adagrad", "adam") for b in ("sgd", "vadagrad")}
    parts = "; ".join(f"{NAMES[a]} minus {NAMES[b]} {_words(gap)}" for (a, b), gap in gaps.items())
    text = f"{_losses(run, ('sgd', 'vadagrad', 'adagrad', 'adam'))} {parts}."
    return judged(all(gap.low > MARGIN for gap in gaps.values()), text)


def _gap(run: Recorded, a: str, b: str) -> Interval:
    """Over the seeds that both have."""
    pairs = list(zip(runs(run, a), runs(run, b), strict=False))
    return difference([best(left) for left, _ in pairs], [best(right) for _, right in pairs], paired=True)


def _losses(run: Recorded, methods: tuple[str, ...]) -> str:
    parts = [f"{NAMES[m]} {sum(best(r) for r in runs(run, m)) / len(runs(run, m)):.3f}" for m in methods]
    seeds = min(len(runs(run, m)) for m in methods)
    epochs = min(r["epochs"] for m in methods for r in runs(run, m))
    return (
        f"Test loss in nats a character at the epoch with the best validation loss, {epochs} epochs of a schedule of "
        f"{run.config['stretches'][-1]}, {seeds} {'seed' if seeds == 1 else 'seeds'}: {', '.join(parts)}."
    )


def _words(gap: Interval) -> str:
    """One seed has no interval."""
    return f"{gap.estimate:.3f}" + (f" [{gap.low:.3f}, {gap.high:.3f}]" if gap.low < gap.high else "")


def _missing(run: Recorded, methods: tuple[str, ...]) -> str:
    lacking = [NAMES[m] for m in methods if not runs(run, m)]
    return f"Not recorded yet: {', '.join(lacking)}." if lacking else ""


CLAIMS = (
    Claim("lm-sgd", "App. M", "VadaGrad generalises well and performs comparably to SGD.", _comparable),
    Claim("lm-adaptive", "App. M", "AdaGrad and Adam generalise worse than SGD and VadaGrad.", _worse),
)
