"""The paper's claims about Fig. 3 left."""

from collections.abc import Callable

from vadam_paper.experiments.intervals import Interval, difference, interval
from vadam_paper.experiments.ledger import Claim, Evidence
from vadam_paper.experiments.results import Recorded, Results
from vadam_paper.experiments.verdicts import above, below, every

SHOWN = ("M1-S1", "M1-S16", "M128-S16")
WELL = 0.1
"""Vadam performs well if its final loss is less than this many bits above VOGN's."""
MUCH = 0.5
"""Bits, on average over the first thousand steps, that make "much faster"."""
ANOTHER_RUN = "A second seed of each method: one run has no interval."


def _faster(fast: str, slow: str, margin: float = 0.0) -> Callable[[Results], Evidence]:
    """Return a judge that compares the mean test log-loss over the first thousand steps; lower is faster."""

    def judge(results: Results) -> Evidence:
        run = results["authors"]
        gaps = {where: _early_gap(run, fast, slow, where) for where in SHOWN}
        parts = "; ".join(f"{where.replace('-', ', ')}: {gap}" for where, gap in gaps.items())
        much = f" Much is {margin:g}." if margin else ""
        text = f"Log-loss over the first 1,000 steps, {slow} minus {fast}, bits, 95 %: {parts}.{much}"
        return Evidence(every(*(above(gap, margin) for gap in gaps.values())), text, _single(run))

    return judge


def _fastest(results: Results) -> Evidence:
    found = [_faster("vogn", other)(results) for other in ("vadam", "bbvi")]
    verdict = every(*(evidence.verdict for evidence in found))
    return Evidence(verdict, " ".join(evidence.text for evidence in found), found[0].would_decide)


def _vadam_good_at_one(results: Results) -> Evidence:
    run = results["authors"]
    ends = {where: [_end(run, method, where) for method in ("vadam", "vogn")] for where in SHOWN}
    gaps = {where: difference(vadam, vogn, paired=True) for where, (vadam, vogn) in ends.items()}
    text = "; ".join(
        f"{where.replace('-', ', ')}: Vadam {interval(vadam).estimate:.3f}, {gaps[where]} above VOGN"
        for where, (vadam, _) in ends.items()
    )
    good = every(*(below(gap, WELL) for where, gap in gaps.items() if where.startswith("M1-")))
    return Evidence(good, f"Log-loss at the end, bits, 95 %: {text}. Well is up to {WELL:g} above.", _single(run))


def _single(run: Recorded) -> str:
    return ANOTHER_RUN if len(_end(run, "vadam", SHOWN[0])) == 1 else ""


def _early_gap(run: Recorded, fast: str, slow: str, where: str) -> Interval:
    a, b = (run[f"{method}-{where}"]["joint"]["early"] for method in (slow, fast))
    return difference(a, b, paired=True)


def _end(run: Recorded, method: str, where: str) -> list[float]:
    values: list[float] = run[f"{method}-{where}"]["joint"]["end"]
    return values


CLAIMS = (
    Claim("australian-vogn", "Fig. 3", "VOGN converges the fastest.", _fastest),
    Claim("australian-vadam", "Fig. 3", "Vadam too performs well for M = 1.", _vadam_good_at_one),
    Claim("australian-vogn-bbvi", "§6.2", "VOGN converges much faster than BBVI.", _faster("vogn", "bbvi", MUCH)),
    Claim("australian-vadam-bbvi", "§6.2", "Vadam converges much faster than BBVI.", _faster("vadam", "bbvi", MUCH)),
)
