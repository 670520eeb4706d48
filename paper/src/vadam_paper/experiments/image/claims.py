"""The paper's claim about image classifiers: one sentence about CIFAR-10."""

from vadam_paper.experiments.image.records import NORMS, values
from vadam_paper.experiments.intervals import student
from vadam_paper.experiments.ledger import Claim, Evidence, Verdict
from vadam_paper.experiments.results import Results
from vadam_paper.experiments.verdicts import below, every

MINOR = 0.01
"""Largest difference in accuracy that counts as minor."""


def _minor(results: Results) -> Evidence:
    run = results["text"]
    recorded = [norm for norm in NORMS if f"{norm}-adagrad" in run and f"{norm}-vadagrad" in run]
    if not recorded:
        return Evidence(
            Verdict.NOT_RUN,
            f"It needs CIFAR-10; these images are {run.config['images']}.",
            "VADAM_IMAGES=cifar-10-batches-bin vadam reproduce image: hundreds of processor hours; VADAM_IMAGES_MOST=5000 takes a tenth of "
            "the images.",
        )
    gaps = {
        norm: student(values(run, norm, "vadagrad", "accuracy") - values(run, norm, "adagrad", "accuracy"))
        for norm in recorded
    }
    text = "; ".join(f"{NORMS[norm]} {gap.estimate:.3f} [{gap.low:.3f}, {gap.high:.3f}]" for norm, gap in gaps.items())
    return Evidence(
        every(*(below(gap, MINOR) for gap in gaps.values())),
        f"Test accuracy, VadaGrad minus AdaGrad, {run.config['seeds']} seeds, {run.config['epochs']} epochs, 95 %: {text}. "
        f"Minor is up to {MINOR:g}.",
    )


CLAIMS = (Claim("lm-cifar", "App. M", "On CIFAR-10 the improvement by VadaGrad is minor.", _minor),)
