"""The paper's claims about Fig. 2b."""

import numpy as np

from vadam_paper.experiments.intervals import difference, interval
from vadam_paper.experiments.ledger import Claim, Evidence, judged
from vadam_paper.experiments.results import Results

COMPARABLE = 0.15
"""Largest relative difference of means that count as comparable; the figure's own differences are within 10 %."""


def _comparable(results: Results) -> Evidence:
    run = results["authors"]
    ratios = {
        f"{name}'s {label}": float(np.mean(run[cell][metric]) / np.mean(run["mf-exact"][metric]))
        for metric, label in (("nelbo", "−ELBO"), ("log_loss", "log-loss"))
        for name, cell in (("Vadam", "vadam"), ("VOGN-1", "vogn-1"))
    }
    text = "; ".join(f"{name} is {ratio:.3f} times MF-Exact's" for name, ratio in ratios.items())
    return judged(all(abs(ratio - 1) <= COMPARABLE for ratio in ratios.values()), f"Means: {text}.")


def _vadam_worse_on_elbo(results: Results) -> Evidence:
    run = results["authors"]
    gap = difference(run["vadam"]["nelbo"], run["vogn-1"]["nelbo"], paired=True)
    slight = gap.estimate < COMPARABLE * float(np.mean(run["vogn-1"]["nelbo"]))
    return judged(gap.low > 0 and slight, f"−ELBO/N of Vadam minus VOGN-1 over the splits, 95 %: {gap}.")


def _vogn_varies_more(results: Results) -> Evidence:
    run = results["authors"]
    spread = {
        name: interval(run[cell]["log_loss"], statistic=lambda x, axis=-1: np.std(x, axis=axis, ddof=1))
        for name, cell in (("VOGN-1", "vogn-1"), ("Vadam", "vadam"), ("MF-Exact", "mf-exact"))
    }
    text = "Standard deviation of the log-loss over splits, 95 %: " + "; ".join(f"{k} {v}" for k, v in spread.items())
    higher = spread["VOGN-1"].low > max(spread["Vadam"].estimate, spread["MF-Exact"].estimate)
    return judged(higher, f"{text}.")


def _vogn_closer(results: Results) -> Evidence:
    run = results["authors"]
    vadam, vogn = run["vadam"]["kl"], run["vogn-1"]["kl"]
    wins = int(np.sum(np.asarray(vogn) < np.asarray(vadam)))
    gap = difference(vadam, vogn, paired=True)
    return judged(
        gap.low > 0, f"KL of Vadam minus VOGN-1, 95 %: {gap}; VOGN-1 is closer on {wins} of {len(vogn)} splits."
    )


def _because_of_gm(results: Results) -> Evidence:
    run = results["authors"]
    vadam, ggn, vogn = (float(np.median(run[cell]["kl"])) for cell in ("vadam", "vadam-ggn", "vogn-1"))
    gap = difference(run["vadam"]["kl"], run["vadam-ggn"]["kl"], paired=True)
    text = (
        f"Median KL: Vadam {vadam:.1f}; the same program with the GGN in place of the squared minibatch gradient "
        f"{ggn:.1f}; VOGN-1 {vogn:.1f}. Difference, 95 %: {gap}."
    )
    return judged(gap.low > 0 and (vadam - ggn) > 0.5 * (vadam - vogn), text)


CLAIMS = (
    Claim("usps-comparable", "§6.1", "On USPS, ELBO and log-loss are comparable for all methods.", _comparable),
    Claim("usps-elbo", "§6.1", "Vadam does slightly worse on ELBO.", _vadam_worse_on_elbo),
    Claim("usps-variance", "§6.1", "VOGN-1 has slightly higher variance for log-loss.", _vogn_varies_more),
    Claim("usps-kl", "§6.1", "VOGN-1's KL to MF-Exact is clearly smaller than Vadam's.", _vogn_closer),
    Claim(
        "usps-gm-bias",
        "§6.1",
        "Vadam does worse due to the bias of the gradient-magnitude approximation with M > 1 (Theorem 1).",
        _because_of_gm,
    ),
)
