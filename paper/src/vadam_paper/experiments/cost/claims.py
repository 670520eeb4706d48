"""The paper's claims about the cost of its algorithms."""

from vadam_paper.experiments.cost.records import NAMES, ratio, recorded
from vadam_paper.experiments.ledger import Claim, Evidence
from vadam_paper.experiments.results import Recorded, Results
from vadam_paper.experiments.verdicts import above, every

LIKE_WITH_LIKE = {
    "torch's operators one by one": ("layers", "-eager"),
    "whole graphs of torch.compile": ("layers-whole", "-whole"),
}
"""Implementations of the stochastic layers, each with the suffix of the methods that run the same way."""
BACKENDS = {"vadam": "Vadam's default backend", "vadam-compiled": 'its backend="compiled"'}


def _less_computation(results: Results) -> Evidence:
    """Judge the times of a step with torch's operators, and those of whole compiled graphs.

    The evidence also reports the library's backends, which stochastic layers have no counterpart of.
    """
    run = results["text"]
    verdicts, parts = [], []
    for how, (layers, suffix) in LIKE_WITH_LIKE.items():
        if layers not in recorded(run):
            continue
        against = {method: ratio(run, layers, f"{method}{suffix}") for method in ("vadam", "vprop")}
        verdicts += [above(gap, 1.0) for gap in against.values()]
        parts.append(f"{how}: " + ", ".join(f"{gap} × that of {NAMES[m]}" for m, gap in against.items()))
    measured = [layers for layers, _ in LIKE_WITH_LIKE.values() if layers in recorded(run)]
    library = "; ".join(
        f"{' and '.join(f'{ratio(run, layers, method)} ×' for layers in measured)} that of {how}"
        for method, how in BACKENDS.items()
        if method in recorded(run)
    )
    text = f"A step of {NAMES['layers']} takes, both by {'; both by '.join(parts)}. One by one and compiled: {library} {_where(run)}"
    return Evidence(every(*verdicts), text)


def _vogn_takes_more(results: Results) -> Evidence:
    run = results["text"]
    against = {method: ratio(run, "vogn", method) for method in ("vprop", "vadam")}
    parts = ", ".join(f"{gap} × that of {NAMES[m]}" for m, gap in against.items())
    return Evidence(
        every(*(above(gap, 1.0) for gap in against.values())), f"A step of VOGN takes {parts} {_where(run)}"
    )


def _where(run: Recorded) -> str:
    network = "-".join(map(str, run.config["sizes"]))
    return f"(median and its 95 % interval; {network}, M = {run.config['batch_size']}, one thread)."


CLAIMS = (
    Claim(
        "cost-computation",
        "Abstract, §1",
        "The algorithms need less computation than existing VI methods.",
        _less_computation,
    ),
    Claim(
        "cost-vogn",
        "§3.2, §3.4",
        "VOGN with M > 1 takes more effort and computation than Vprop and Vadam.",
        _vogn_takes_more,
    ),
)
