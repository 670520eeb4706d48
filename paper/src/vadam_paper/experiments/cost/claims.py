"""The paper's claims about the cost of its algorithms."""

from vadam_paper.experiments.cost.records import NAMES, ratio
from vadam_paper.experiments.ledger import Claim, Evidence, judged
from vadam_paper.experiments.results import Recorded, Results


def _less_computation(results: Results) -> Evidence:
    run = results["text"]
    against = {method: ratio(run, "layers", method) for method in ("vadam", "vprop")}
    parts = ", ".join(f"{gap} × that of {NAMES[m]}" for m, gap in against.items())
    text = f"A step of {NAMES['layers']} takes {parts} {_where(run)}"
    return judged(all(gap.low > 1 for gap in against.values()), text)


def _vogn_takes_more(results: Results) -> Evidence:
    run = results["text"]
    against = {method: ratio(run, "vogn", method) for method in ("vprop", "vadam")}
    parts = ", ".join(f"{gap} × that of {NAMES[m]}" for m, gap in against.items())
    return judged(all(gap.low > 1 for gap in against.values()), f"A step of VOGN takes {parts} {_where(run)}")


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
