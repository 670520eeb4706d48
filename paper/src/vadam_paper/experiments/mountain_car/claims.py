"""The paper's claim about exploring with weights, on a small task."""

from vadam_paper.experiments.intervals import fisher_p_value
from vadam_paper.experiments.ledger import Claim, Evidence, Verdict, judged
from vadam_paper.experiments.mountain_car.table import NAMES, arrived
from vadam_paper.experiments.results import Results

TRIALS = 5
BY_WEIGHTS, BY_ACTIONS = "vadam-episode", ("adam-action-noise", "adam-correlated-noise")


def _richer(results: Results) -> Evidence:
    """Judge the claim by Fisher's exact test at 5 %.

    Exploring with weights must reach the top in more trials than either kind of action noise.
    """
    run = results["text"]
    reached = {method: [count > 0 for count in arrived(run, method)] for method in NAMES}
    listed = "; ".join(f"{NAMES[m]} {sum(found)} of {len(found)}" for m, found in reached.items() if found)
    text = f"Trials in which the car reached the top: {listed}."
    if any(len(reached[method]) < TRIALS for method in (BY_WEIGHTS, *BY_ACTIONS)):
        return Evidence(Verdict.NOT_RUN, f"It needs {TRIALS} trials of each. {text}")
    p = {method: fisher_p_value(reached[BY_WEIGHTS], reached[method]) for method in BY_ACTIONS}
    tests = ", ".join(f"p = {value:.2g} against {NAMES[method]}" for method, value in p.items())
    return judged(max(p.values()) <= 0.05, f"{text} {NAMES[BY_WEIGHTS]}: {tests}.")


CLAIMS = (
    Claim(
        "rl-richer",
        "App. K",
        "Exploring with sampled weights gives much richer behaviour than injecting noise into actions (here: weights that are kept "
        "for an episode, as a footnote proposes; new ones at every step are in the evidence).",
        _richer,
    ),
)
