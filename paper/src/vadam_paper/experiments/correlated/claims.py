"""Statements about EVON, beyond the paper, each with a judge."""

import numpy as np

from vadam_paper.experiments.correlated.records import NAMES, SCORES, SET_NAMES, best, scores, validation
from vadam_paper.experiments.correlated.run import DIAGONAL
from vadam_paper.experiments.intervals import student
from vadam_paper.experiments.ledger import Claim, Evidence
from vadam_paper.experiments.results import Results
from vadam_paper.experiments.verdicts import Verdict, below, every, more_seeds

WHERE = "Aim of correlated"
SMALLER = {"nll": True, "ece": True, "auroc": False}
"""True for scores of which the smaller is better."""


def _below_every_diagonal(results: Results) -> Evidence:
    """Judge by the nearest diagonal Gaussian, which no diagonal method can pass."""
    run = results["text"]
    verdicts, parts = [], []
    for name, label in SET_NAMES.items():
        exact, mine = run[f"logistic.{name}.exact"], student(best(run, name, "evon", "kl"))
        bound = exact["nearest_diagonal_kl"]
        verdicts.append(below(mine, bound))
        others = ", ".join(f"{NAMES[m]} {np.mean(best(run, name, m, 'kl')):.3g}" for m in DIAGONAL)
        parts.append(
            f"{label}: EVON {mine}, nearest diagonal {bound:.3g}, MF-Exact {exact['mean_field_kl']:.3g}, {others}"
        )
    return Evidence(every(*verdicts), f"KL to the exact full Gaussian in nats, 95 %: {'; '.join(parts)}.")


def _larger_elbo(results: Results) -> Evidence:
    run = results["text"]
    verdicts, parts = [], []
    for name, label in SET_NAMES.items():
        exact = run[f"logistic.{name}.exact"]
        short = student([exact["elbo"] - value for value in best(run, name, "evon", "elbo")])
        gap = exact["elbo"] - exact["mean_field_elbo"]
        verdicts.append(below(short, gap))
        parts.append(f"{label}: EVON {short}, MF-Exact {gap:.3g}")
    return Evidence(every(*verdicts), f"ELBO below that of the exact full Gaussian in nats, 95 %: {'; '.join(parts)}.")


def _correlations(results: Results) -> Evidence:
    run = results["text"]
    found = run["network.evon"]
    error, zero = student(found["rmse_inside"]), found["diagonal_rmse_inside"]
    text = (
        f"Root mean square difference from FullVON's correlations inside the tensors, 95 %: EVON {error}, a diagonal posterior {zero:.3g}; "
        f"over all pairs {np.mean(found['rmse']):.3g} and {found['diagonal_rmse']:.3g}. Correlation coefficient between EVON's and "
        f"FullVON's entries inside the tensors: {np.mean(found['agreement_inside']):.2f}."
    )
    return Evidence(below(error, zero), text)


def _nearer_to_full(results: Results) -> Evidence:
    run = results["text"]
    full, mine, ivon = run["network.full"], run["network.evon"]["kl"], run["network.ivon"]["kl"]
    gap = student(mine)
    text = (
        f"KL to FullVON's Gaussian in nats, 95 %: EVON {gap}, IVON {student(ivon)}, nearest diagonal {full['nearest_diagonal_kl']:.3g}, "
        f"nearest with independent tensors {full['nearest_blocks_kl']:.3g}."
    )
    return Evidence(below(gap, full["nearest_diagonal_kl"]), text)


def _better_predictions(results: Results) -> Evidence:
    run = results["text"]
    gaps, parts = [], []
    for what, smaller in SMALLER.items():
        ivon, evon = scores(run, "ivon", what), scores(run, "evon", what)
        gaps.append(student(evon - ivon if smaller else ivon - evon))
        change = student(evon - ivon)
        parts.append(f"{SCORES[what]} {evon.mean():.4f} against {ivon.mean():.4f}, difference {change}")
    seconds = [np.mean(scores(run, m, "training_cpu_seconds")) for m in ("evon", "ivon")]
    text = (
        f"EVON against IVON, {run.config['image_seeds']} seeds, 95 % of the paired difference: {'; '.join(parts)}. Training takes "
        f"{seconds[0] / seconds[1]:.2f} × IVON's time. Least validation NLL of the settings tried: EVON "
        f"{min(validation(run, 'evon')):.3f}, IVON {min(validation(run, 'ivon')):.3f}."
    )
    training = sum(float(np.sum(scores(run, method, "training_cpu_seconds"))) for method in ("evon", "ivon"))
    seeds = run.config["image_seeds"]
    plan, verdict = more_seeds(gaps, seeds, seconds_a_seed=training / seeds), every(*map(below, gaps))
    return Evidence(verdict, text, plan if verdict == Verdict.UNDECIDED else "")


CLAIMS = (
    Claim(
        "evon-kl",
        WHERE,
        "On logistic regression EVON is nearer to the exact full Gaussian than any diagonal Gaussian can be.",
        _below_every_diagonal,
    ),
    Claim("evon-elbo", WHERE, "Its ELBO is above that of the best diagonal Gaussian.", _larger_elbo),
    Claim(
        "evon-correlations",
        WHERE,
        "On a small network EVON's correlations inside a tensor are nearer to FullVON's than a diagonal's zeros.",
        _correlations,
    ),
    Claim(
        "evon-near-full",
        WHERE,
        "On a small network EVON is nearer to FullVON's Gaussian than any diagonal Gaussian can be.",
        _nearer_to_full,
    ),
    Claim(
        "evon-lenet",
        WHERE,
        "On LeNet-5 EVON's NLL, ECE and AUROC of out-of-distribution images are better than IVON's at equal settings.",
        _better_predictions,
    ),
)
