"""The paper's claims about Table 1."""

from collections.abc import Callable, Sequence

import numpy as np

from vadam_paper.experiments.intervals import Interval
from vadam_paper.experiments.ledger import Claim, Evidence, Verdict
from vadam_paper.experiments.results import Recorded, Results
from vadam_paper.experiments.uci import corrected
from vadam_paper.experiments.uci.comparison import NAMES, SETS, apart, better, bold, compare, printed_sign
from vadam_paper.experiments.uci.config import CONVERGED
from vadam_paper.experiments.uci.convergence import epochs_saved
from vadam_paper.experiments.verdicts import above, below, every, exactly, opposite

LL, POINTWISE, RMSE = "joint_log_likelihood", "log_likelihood", "rmse"
COMPARABLE, APART = 2, 0.4
"""Limits for comparable methods.

One wins on at most COMPARABLE sets more than the other. On average over the sets, their RMSEs are less than a factor of
e^APART and their log-likelihoods less than APART nats apart, with the whole interval. In the paper's table these are
e^0.17 and 0.22 nats. A method that the paper calls similar may also be better: then only its losses count.
"""
MOST = 5
"""Number of sets, out of eight, that counts as most."""
MUCH = 0.25
"""Fraction of the epochs that must be saved for "much faster"."""

Judge = Callable[[Results], Evidence]
JudgeOfRun = Callable[[Recorded, Sequence[str]], tuple[Verdict, str]]


def on_all_sets(*methods: str) -> Callable[[JudgeOfRun], Judge]:
    """Return a decorator for judges that need these methods on all eight sets, by the authors' protocol.

    Until all are recorded, the verdict is "not run" and the evidence says how it stands.
    """

    def decorate(judge: JudgeOfRun) -> Judge:
        def judge_results(results: Results) -> Evidence:
            run = results.get("authors")
            if run is None:
                return Evidence(Verdict.NOT_RUN, "The authors' protocol is not recorded.", "vadam reproduce uci")
            sets = [name for name in SETS if all(f"{method}-{name}" in run for method in methods)]
            if not sets:
                return Evidence(
                    Verdict.NOT_RUN, f"No set has been run yet with {_listed(methods)}.", "vadam reproduce uci"
                )
            verdict, text = judge(run, sets)
            if len(sets) == len(SETS):
                return Evidence(verdict, text, _more_splits(run) if verdict == Verdict.UNDECIDED else "")
            missing = ", ".join(name for name in SETS if name not in sets)
            so_far = f"So far {len(sets)} of {len(SETS)} sets, no verdict: {text}"
            return Evidence(Verdict.NOT_RUN, so_far, f"vadam reproduce uci: {missing}.")

        return judge_results

    return decorate


def _more_splits(run: Recorded) -> str:
    """Return what would narrow the intervals of a whole table: Gal published 20 splits, more are other splits."""
    hours = run.manifest.get("cpu_seconds", 0.0) / 3600
    return f"Splits beyond the 20 that Gal published; as many again take {hours:.1f} processor hours."


@on_all_sets("vadam", "bbvi")
def _comparable(run: Recorded, sets: Sequence[str]) -> tuple[Verdict, str]:
    return _all_comparable(run, sets, (("vadam", "bbvi", RMSE), ("vadam", "bbvi", LL)))


@on_all_sets("vadam", "bbvi")
def _comparable_uncertainty(run: Recorded, sets: Sequence[str]) -> tuple[Verdict, str]:
    return _all_comparable(run, sets, (("vadam", "bbvi", LL), ("vadam", "bbvi", POINTWISE)))


@on_all_sets("vogn", "vadam", "bbvi")
def _vogn_similar(run: Recorded, sets: Sequence[str]) -> tuple[Verdict, str]:
    pairs = [("vogn", other, metric) for other in ("vadam", "bbvi") for metric in (RMSE, LL)]
    return _all_comparable(run, sets, pairs, or_better=True)


@on_all_sets("mc-dropout", "vadam", "bbvi")
def _dropout_ahead(run: Recorded, sets: Sequence[str]) -> tuple[Verdict, str]:
    """Judge with equal numbers of epochs, and by the pointwise log-likelihood, which MC-Dropout is measured with.

    Supported where it wins most sets, contradicted where it loses as many as it wins.
    """
    tallies = [
        _tally(run, sets, "mc-dropout", other, metric) for other in ("vadam", "bbvi") for metric in (RMSE, POINTWISE)
    ]
    return every(*(_ahead(won, lost) for won, lost, _ in tallies)), " ".join(text for *_, text in tallies)


def _as_good_as_converged_dropout(results: Results) -> Evidence:
    """Judge Vadam under *best* and MC-Dropout of our own, trained as long and searched as widely, on the splits that both have."""
    run = results.get("best")
    command = "vadam reproduce uci --protocol best"
    done = [] if run is None else [n for n in SETS if all(f"{m}-{n}" in run for m in (CONVERGED, "vadam"))]
    if run is None or not done:
        return Evidence(Verdict.NOT_RUN, "No set has been run yet.", command)
    tallies = [_tally(run, done, CONVERGED, "vadam", metric) for metric in (RMSE, POINTWISE)]
    text = " ".join(text for *_, text in tallies)
    if len(done) < len(SETS):
        return Evidence(Verdict.NOT_RUN, f"So far {len(done)} of {len(SETS)} sets, no verdict: {text}", command)
    verdict = every(*(opposite(_ahead(won, lost)) for won, lost, _ in tallies))
    return Evidence(verdict, text, _more_splits(run) if verdict == Verdict.UNDECIDED else "")


def _corrected_as_good(results: Results) -> Evidence:
    """Judge *corrected* against *best* by the limits of "comparable"; sets that it wins do not count against it."""
    run, command = corrected.beside_best(results), "vadam run uci --preset paper --protocol corrected"
    done = [] if run is None else [name for name in SETS if f"vadam-{name}" in run]
    if run is None or not done:
        return Evidence(Verdict.NOT_RUN, "The protocols best and corrected are not both recorded.", command)
    pairs = [(corrected.CORRECTED, "vadam", metric) for metric in (RMSE, POINTWISE)]
    verdict, text = _all_comparable(run, done, pairs, or_better=True)
    if len(done) < len(SETS):
        return Evidence(Verdict.NOT_RUN, f"So far {len(done)} of {len(SETS)} sets, no verdict: {text}", command)
    return Evidence(verdict, text, _more_splits(run) if verdict == Verdict.UNDECIDED else "")


def _ahead(won: int, lost: int) -> Verdict:
    """Return supported if most sets are won, contradicted if no more are won than lost."""
    if won >= MOST and won > lost:
        return Verdict.SUPPORTED
    return Verdict.CONTRADICTED if won <= lost else Verdict.UNDECIDED


def _bold_face(metric: str) -> Judge:
    """Judge which method is ahead on which set: by the sign of the mean, and by significant reversals.

    Supported if the signs are the paper's on every set where its printed means differ, contradicted if a paired t-test is significant
    against one of them. The significance of a difference depends on the splits; it is reported, not judged.
    """

    @on_all_sets("vadam", "bbvi")
    def judge(run: Recorded, sets: Sequence[str]) -> tuple[Verdict, str]:
        same_calls, signs, told = 0, {}, []
        for name in sets:
            comparison = compare(run, "vadam", "bbvi", name, metric)
            assert comparison is not None
            found, printed = better(comparison, "vadam", "bbvi"), printed_sign(name, metric)
            same_calls += found == bold(name, metric)
            told.append(f"{name} {found} (p = {comparison.p:.1g}; paper {bold(name, metric)})")
            if printed:
                agrees = int(np.sign(comparison.gain)) == printed
                reversed_clearly = comparison.sign == -printed
                signs[name] = exactly(agrees) if agrees or reversed_clearly else Verdict.UNDECIDED
        agree = sum(verdict == Verdict.SUPPORTED for verdict in signs.values())
        reversals = [name for name, verdict in signs.items() if verdict == Verdict.CONTRADICTED]
        text = (
            f"The same method is ahead on {agree} of the {len(signs)} sets on which the paper's means differ; significant reversals: "
            f"{', '.join(reversals) or 'none'}. The t-tests call the same method better on {same_calls} of {len(sets)}: {', '.join(told)}."
        )
        return every(*signs.values()), text

    return judge


@on_all_sets("vadam", "bbvi", "vogn")
def _faster(run: Recorded, sets: Sequence[str]) -> tuple[Verdict, str]:
    """Judge that each method saves a quarter of the epochs on most sets; contradicted once too few sets can."""
    texts, verdicts, margin = [], [], MUCH * run.config["epochs"]
    for method in ("vadam", "vogn"):
        saved = {name: epochs_saved(run, method, "bbvi", name) for name in sets}
        found = [above(gap, margin) for gap in saved.values()]
        ahead, behind = found.count(Verdict.SUPPORTED), found.count(Verdict.CONTRADICTED)
        open_still = Verdict.UNDECIDED if len(sets) - behind >= MOST else Verdict.CONTRADICTED
        verdicts.append(Verdict.SUPPORTED if ahead >= MOST else open_still)
        listed = ", ".join(f"{name} {gap.format(2)}" for name, gap in saved.items())
        texts.append(
            f"{NAMES[method]} saves {MUCH:.0%} of them on {ahead} of {len(sets)} sets, less on {behind} ({listed})."
        )
    reach = "Epochs saved on the way to the test RMSE that both reach, and stay below, mean and 95 %:"
    return every(*verdicts), f"{reach} {' '.join(texts)}"


def _all_comparable(
    run: Recorded, sets: Sequence[str], pairs: Sequence[tuple[str, str, str]], *, or_better: bool = False
) -> tuple[Verdict, str]:
    verdicts, texts = [], []
    for pair in pairs:
        won, lost, text = _tally(run, sets, *pair)
        gap = apart(run, *pair[:2], sets, pair[2])
        ahead = lost - won if or_better else abs(won - lost)
        verdicts += [exactly(ahead <= COMPARABLE), below(gap, APART)]
        texts.append(f"{text} On average {_size(gap, pair[2])} apart{_side(gap)}.")
    return every(*verdicts), " ".join(texts)


def _size(gap: Interval, metric: str) -> str:
    if metric == RMSE:
        return f"a factor of {Interval(*np.exp(gap)).format(3)}"
    return f"{gap.format(2)} nats"


def _side(gap: Interval) -> str:
    """Say "undecided" if the limit lies within the interval."""
    return ", undecided" if gap.low < APART <= gap.high else ""


def _tally(run: Recorded, sets: Sequence[str], first: str, second: str, metric: str) -> tuple[int, int, str]:
    """Return the number of sets won and lost by the first method in the paired t-test, and a sentence."""
    comparisons = {name: compare(run, first, second, name, metric) for name in sets}
    won = [name for name, c in comparisons.items() if c is not None and c.sign > 0]
    lost = [name for name, c in comparisons.items() if c is not None and c.sign < 0]
    kind = {RMSE: "RMSE", LL: "joint log-likelihood", POINTWISE: "pointwise log-likelihood"}[metric]
    names = NAMES | {corrected.CORRECTED: corrected.NAME}
    text = f"{kind}: {names[first]} better than {names[second]} on {_sets(won)}, worse on {_sets(lost)}."
    return len(won), len(lost), text


def _sets(names: Sequence[str]) -> str:
    return f"{len(names)} ({', '.join(names)})" if names else "0"


def _listed(methods: Sequence[str]) -> str:
    *first, last = (NAMES[method] for method in methods)
    return f"{', '.join(first)} and {last}"


CLAIMS = (
    Claim("uci-comparable", "§6.2, Table 1", "BBVI and Vadam perform comparably.", _comparable),
    Claim("uci-dropout", "§6.2, Table 1", "MC-Dropout outperforms both BBVI and Vadam.", _dropout_ahead),
    Claim("uci-vogn", "§6.2", "VOGN shows results similar to those of Vadam and BBVI.", _vogn_similar),
    Claim(
        "uci-rmse",
        "Table 1",
        "By a paired t-test on RMSE, BBVI is better on Boston, Concrete, Kin8nm and Wine, Vadam on Energy, Power and Yacht, "
        "neither on Naval.",
        _bold_face(RMSE),
    ),
    Claim(
        "uci-loglik",
        "Table 1",
        "By a paired t-test on log-likelihood, BBVI is better on Boston, Concrete, Kin8nm and Wine, Vadam on Energy and "
        "Yacht, neither on Naval and Power.",
        _bold_face(LL),
    ),
    Claim("uci-trend", "§6.2", "On other data sets too, VOGN and Vadam converge much faster than BBVI.", _faster),
    Claim(
        "uci-quality",
        "Abstract, §7",
        "The uncertainty estimates are of a quality comparable to existing VI methods.",
        _comparable_uncertainty,
    ),
    Claim(
        "uci-dropout-converged",
        "Aim of uci",
        "MC-Dropout does not outperform Vadam if both are trained until they converge and searched as widely.",
        _as_good_as_converged_dropout,
    ),
    Claim(
        "uci-corrected",
        "Aim of uci",
        "With Theorem 1's correction (batch_size), Vadam at T = 1 is comparable to Vadam with a searched temperature.",
        _corrected_as_good,
    ),
)
