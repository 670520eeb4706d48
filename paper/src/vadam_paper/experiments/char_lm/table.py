"""The numbers of App. M."""

import numpy as np

from vadam_paper.experiments.char_lm.records import NAMES, best, runs
from vadam_paper.experiments.results import Recorded, Results
from vadam_paper.experiments.tables import Table

TABLE_4 = {
    "sgd": "α = 0.5, K = 80",
    "adagrad": "α = 0.025, β = 0.5, K = 80",
    "adam": "α = 0.0012, K = 40",
    "vadagrad": "α = 0.0075, β = 0.5, K = 40",
}


def table(results: Results) -> Table:
    columns = ("Method", "Table 4", "Seeds, epochs", "Train", "Validation", "Test", "Test, bits", "Test error")
    rows = [
        _row(results["text"], method, name)
        for method, name in NAMES.items()
        if "text" in results and runs(results["text"], method)
    ]
    caption = (
        "Loss in nats per character at the epoch with the best validation loss, with the mean weights; mean ± standard deviation "
        "over seeds. Test error is the share of characters that were not the most probable one."
    )
    return Table(caption, columns, rows)


def notes(results: Results) -> list[str]:
    return [
        "Table 4 does not say how long the curves are: α is divided by 10 after every K of 200 epochs, and a shorter run has the "
        "same divisions at the same fractions of its length: in 10 epochs α falls 20 times sooner. App. M has a figure without "
        "numbers, which is why none stands beside ours.",
        "β of AdaGrad scales its rate and nothing else: with s ← s + β ĝ∘ĝ, α/√s is torch’s Adagrad with α/√β. In VadaGrad it also "
        "decides how soon the noise falls, and s₁ = 0.0001 how it starts: as SGD with the rate α/√s₁ = 0.75.",
        "Vadam, IVON and VOGN are not in App. M: Vadam has Adam’s α and K, IVON α = 2 and K = 80, VOGN α = 0.01 and K = 40.",
    ]


def _row(run: Recorded, method: str, name: str) -> tuple[str, ...]:
    found = runs(run, method)
    epochs = min(r["epochs"] for r in found)

    def spread(what: str, digits: int, scale: float = 1.0) -> str:
        return _spread([scale * best(r, what, epochs) for r in found], digits)

    return (
        name,
        TABLE_4.get(method, "–"),
        f"{len(found)}, {epochs}",
        *(spread(what, 3) for what in ("train", "validation", "test", "test_bits")),
        spread("test_error", 1, 100) + " %",
    )


def _spread(values: list[float], digits: int) -> str:
    deviation = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{deviation}"
