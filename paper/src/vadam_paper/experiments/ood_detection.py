"""Score the detection of out-of-distribution (OOD) inputs by a measure of uncertainty."""

import torch
from torch import Tensor

from vadam import metrics

ACCEPTED = 0.95
"""Share of the in-distribution inputs that are accepted when the share of accepted OOD inputs (FPR95) is measured."""


def separation(home: Tensor, away: Tensor) -> dict[str, float]:
    """Return AUROC and FPR95 from the uncertainties of in-distribution and of OOD inputs."""
    score = torch.cat([home, away])
    is_ood = (torch.arange(len(score)) >= len(home)).long()
    threshold = home.sort().values[int(ACCEPTED * (len(home) - 1))]
    return {"auroc": float(metrics.auroc(score, is_ood)), "fpr95": float((away <= threshold).double().mean())}
