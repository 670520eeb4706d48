"""Claims about fine-tuning a pre-trained network, judged like the paper's claims."""

from collections.abc import Callable

from vadam_paper.experiments.intent.records import NAMES, SIZES, WAYS, best_variational, paired
from vadam_paper.experiments.intervals import Interval, student
from vadam_paper.experiments.ledger import Claim, Evidence, Verdict
from vadam_paper.experiments.results import Results
from vadam_paper.experiments.verdicts import above, below, every, more_seeds

FEWEST_SEEDS = 3
EQUAL = 0.005
"""Loss of accuracy that still counts as equal."""


def _against_adamw(
    what: str, verdict: Callable[[Interval, float], Verdict], parts: dict[str, str], *, margin: float = 0.0
) -> Callable[[Results], Evidence]:
    """Return the judge of the best variational method, by its validation loss, against AdamW, in all parts."""

    def judge(results: Results) -> Evidence:
        run = results["text"]
        found = {}
        for part, title in parts.items():
            method = best_variational(run, part)
            found[f"{title}, {NAMES[method]}"] = paired(run, part, method, "adamw", what)
        text = "; ".join(f"{name} {student(gaps).format(3)}" for name, gaps in found.items() if len(gaps))
        seeds = min(len(gaps) for gaps in found.values())
        if seeds < FEWEST_SEEDS:
            so_far = f"So far, no verdict: {text}." if text else "The methods have not been run."
            return Evidence(Verdict.NOT_RUN, so_far, f"vadam run intent, {FEWEST_SEEDS} seeds.")
        intervals = [student(gaps) for gaps in found.values()]
        verdicts = every(*(verdict(gap, margin) for gap in intervals))
        plan = more_seeds(intervals, seeds, margin, seconds_a_seed=run.manifest["cpu_seconds"] / run.config["seeds"])
        return Evidence(
            verdicts, f"Minus AdamW, seed by seed, 95 %: {text}.", plan if verdicts == Verdict.UNDECIDED else ""
        )

    return judge


def _claims(where: str, subject: str, parts: dict[str, str]) -> tuple[Claim, ...]:
    """Return the claims about one way of training."""
    return (
        Claim(
            f"intent-{where}accuracy",
            "Aim of intent",
            f"{subject} by the best variational optimizer: as accurate as AdamW’s, within {100 * EQUAL:g} %.",
            _against_adamw("accuracy", above, parts, margin=-EQUAL),
        ),
        Claim(
            f"intent-{where}ece",
            "Aim of intent",
            f"{subject}: a lower calibration error than tuned AdamW’s.",
            _against_adamw("ece", below, parts),
        ),
        Claim(
            f"intent-{where}scope",
            "Aim of intent",
            f"{subject}: the entropy detects queries out of scope with a higher AUROC than AdamW’s.",
            _against_adamw("auroc", above, parts),
        ),
    )


CLAIMS = (
    *_claims("", "A last layer", SIZES),
    *_claims("lora-", "A LoRA adapter", {"lora": WAYS["lora"]}),
    *_claims("full-", "All weights", {"full": WAYS["full"]}),
)
