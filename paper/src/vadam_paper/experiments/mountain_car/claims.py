"""The paper's claim about exploring with weights, on a small task."""

from vadam_paper.experiments.intervals import fisher_p_value
from vadam_paper.experiments.ledger import Claim, Evidence, Verdict
from vadam_paper.experiments.mountain_car.table import NAMES, arrived
from vadam_paper.experiments.results import Results
from vadam_paper.experiments.verdicts import every

TRIALS = 5
SIGNIFICANT = 0.05
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
        return Evidence(Verdict.NOT_RUN, text, f"{TRIALS} trials of each.")
    weights = reached[BY_WEIGHTS]
    more, fewer = (
        {method: fisher_p_value(*pair) for method, pair in pairs.items()}
        for pairs in (
            {method: (weights, reached[method]) for method in BY_ACTIONS},
            {method: (reached[method], weights) for method in BY_ACTIONS},
        )
    )
    verdicts = {method: _of_p_values(more[method], fewer[method]) for method in BY_ACTIONS}
    tests = ", ".join(f"p = {value:.2g} against {NAMES[method]}" for method, value in more.items())
    alike = [NAMES[method] for method, verdict in verdicts.items() if verdict == Verdict.UNDECIDED]
    would_decide = f"A task on which {' and '.join(alike)} does not reach the goal as often." if alike else ""
    return Evidence(every(*verdicts.values()), f"{text} {NAMES[BY_WEIGHTS]}: {tests}.", would_decide)


def _of_p_values(more: float, fewer: float) -> Verdict:
    if more <= SIGNIFICANT:
        return Verdict.SUPPORTED
    return Verdict.CONTRADICTED if fewer <= SIGNIFICANT else Verdict.UNDECIDED


CLAIMS = (
    Claim(
        "rl-richer",
        "App. K",
        "Exploring with sampled weights gives much richer behaviour than injecting noise into actions (here: weights that are kept "
        "for an episode, as a footnote proposes; new ones at every step are in the evidence).",
        _richer,
    ),
)
