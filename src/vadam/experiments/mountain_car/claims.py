"""What the paper says about exploring with weights, on a task small enough for everyone."""

from vadam.experiments.ledger import Claim, Evidence, Verdict, judged
from vadam.experiments.mountain_car.table import NAMES, arrived
from vadam.experiments.results import Results

TRIALS = 5


def _richer(results: Results) -> Evidence:
    run = results["text"]
    reached = {method: arrived(run, method) for method in ("vadam-episode", "adam-action-noise", "adam-plain")}
    text = "; ".join(f"{NAMES[m]} {sum(a > 0 for a in found)} of {len(found)}" for m, found in reached.items())
    by_weights, by_actions = (sum(a > 0 for a in reached[m]) for m in ("vadam-episode", "adam-action-noise"))
    text = f"Trials in which the car reached the top: {text}."
    if any(len(found) < TRIALS for found in reached.values()):
        return Evidence(Verdict.NOT_RUN, f"It needs {TRIALS} trials of each. {text}")
    return judged(by_weights > by_actions and by_weights > TRIALS / 2, text)


CLAIMS = (
    Claim(
        "rl-richer",
        "App. K",
        "Exploring with sampled weights gives much richer behaviour than injecting noise into actions.",
        _richer,
    ),
)
