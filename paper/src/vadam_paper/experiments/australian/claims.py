"""What the paper says about Fig. 3 left."""

from collections.abc import Callable

import numpy as np

from vadam_paper.experiments.intervals import Interval, difference, interval
from vadam_paper.experiments.ledger import Claim, Evidence, judged
from vadam_paper.experiments.results import Recorded, Results

SHOWN = ("M1-S1", "M1-S16", "M128-S16")
WELL = 0.1
"""Bits above VOGN's end up to which Vadam counts as performing well."""


def _faster(fast: str, slow: str) -> Callable[[Results], Evidence]:
    """By the mean test log-loss over the first thousand steps: lower is faster."""

    def judge(results: Results) -> Evidence:
        run = results["authors"]
        gaps = {where: _early_gap(run, fast, slow, where) for where in SHOWN}
        text = "; ".join(f"{where.replace('-', ', ')}: {gap}" for where, gap in gaps.items())
        return judged(
            all(gap.low > 0 for gap in gaps.values()),
            f"Log-loss over the first 1,000 steps, {slow} minus {fast}, bits, 95 %: {text}.",
        )

    return judge


def _fastest(results: Results) -> Evidence:
    against_vadam, against_bbvi = _faster("vogn", "vadam")(results), _faster("vogn", "bbvi")(results)
    both = against_vadam.verdict == against_bbvi.verdict == "supported"
    return judged(both, f"{against_vadam.text} {against_bbvi.text}")


def _vadam_good_at_one(results: Results) -> Evidence:
    run = results["authors"]
    ends = {where: {m: _end(run, m, where) for m in ("vadam", "vogn")} for where in SHOWN}
    gaps = {where: float(np.mean(end["vadam"]) - np.mean(end["vogn"])) for where, end in ends.items()}
    text = "; ".join(
        f"{where.replace('-', ', ')}: Vadam {interval(end['vadam'])}, VOGN {interval(end['vogn'])}"
        for where, end in ends.items()
    )
    good = all(gap < WELL for where, gap in gaps.items() if where.startswith("M1-"))
    return judged(good, f"Log-loss at the end, bits, 95 %: {text}.")


def _early_gap(run: Recorded, fast: str, slow: str, where: str) -> Interval:
    a, b = (run[f"{method}-{where}"]["joint"]["early"] for method in (slow, fast))
    return difference(a, b, paired=True)


def _end(run: Recorded, method: str, where: str) -> list[float]:
    values: list[float] = run[f"{method}-{where}"]["joint"]["end"]
    return values


CLAIMS = (
    Claim("australian-vogn", "Fig. 3", "VOGN converges the fastest.", _fastest),
    Claim("australian-vadam", "Fig. 3", "Vadam too performs well for M = 1.", _vadam_good_at_one),
    Claim("australian-vogn-bbvi", "§6.2", "VOGN converges much faster than BBVI.", _faster("vogn", "bbvi")),
    Claim("australian-vadam-bbvi", "§6.2", "Vadam converges much faster than BBVI.", _faster("vadam", "bbvi")),
)
