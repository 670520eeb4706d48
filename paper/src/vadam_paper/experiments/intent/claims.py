"""Claims about the last layer of a pre-trained network, judged like the paper's claims."""

from collections.abc import Callable

from vadam_paper.experiments.intent.records import NAMES, SIZES, best_variational, paired
from vadam_paper.experiments.intervals import Interval, student
from vadam_paper.experiments.ledger import Claim, Evidence, Verdict
from vadam_paper.experiments.results import Results
from vadam_paper.experiments.verdicts import above, below, every

FEWEST_SEEDS = 3
EQUAL = 0.005
"""Loss of accuracy that still counts as equal."""


def _against_adamw(what: str, verdict: Callable[[Interval], Verdict]) -> Callable[[Results], Evidence]:
    """Return the judge of the best variational method, by its validation loss, against AdamW, at both sizes."""

    def judge(results: Results) -> Evidence:
        run = results["text"]
        found = {}
        for size in SIZES:
            method = best_variational(run, size)
            found[f"{SIZES[size]}, {NAMES[method]}"] = paired(run, size, method, "adamw", what)
        text = "; ".join(f"{name} {student(gaps).format(3)}" for name, gaps in found.items() if len(gaps))
        if min(len(gaps) for gaps in found.values()) < FEWEST_SEEDS:
            so_far = f"So far, no verdict: {text}." if text else "The methods have not been run."
            return Evidence(Verdict.NOT_RUN, so_far, f"vadam run intent, {FEWEST_SEEDS} seeds at both sizes.")
        verdicts = [verdict(student(gaps)) for gaps in found.values()]
        return Evidence(every(*verdicts), f"Minus AdamW, seed by seed, 95 %: {text}.", "More seeds.")

    return judge


CLAIMS = (
    Claim(
        "intent-accuracy",
        "Aim of intent",
        f"A last layer by the best variational optimizer is as accurate as AdamW’s, within {100 * EQUAL:g} %.",
        _against_adamw("accuracy", lambda gap: above(gap, -EQUAL)),
    ),
    Claim(
        "intent-ece",
        "Aim of intent",
        "It has a lower calibration error than tuned AdamW.",
        _against_adamw("ece", lambda gap: below(gap)),
    ),
    Claim(
        "intent-scope",
        "Aim of intent",
        "Its entropy tells queries out of scope with a higher AUROC than AdamW’s.",
        _against_adamw("auroc", lambda gap: above(gap)),
    ),
)
