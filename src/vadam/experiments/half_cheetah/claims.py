"""What the paper says about exploration in deep reinforcement learning."""

from functools import partial

from vadam.experiments.ledger import Claim
from vadam.experiments.rl.judging import faster, late, never_grows, steadier

UNTIL, TRIALS = 100_000, 5
_faster = partial(faster, until=UNTIL, trials_needed=TRIALS)
OURS = ("vadam", "vadagrad")

CLAIMS = (
    Claim(
        "rl-sgd-plain",
        "§6.3, Fig. 3",
        "VadaGrad and Vadam clearly learn faster than SGD-Plain.",
        _faster(OURS, ("sgd-plain",)),
    ),
    Claim(
        "rl-sgd-explore",
        "§6.3, Fig. 3",
        "VadaGrad and Vadam clearly learn faster than SGD-Explore.",
        _faster(OURS, ("sgd-explore",)),
    ),
    Claim("rl-sgd-late", "App. K", "The SGD-based methods do not learn well throughout.", late),
    Claim(
        "rl-early",
        "§6.3, App. K",
        "Vadam learns faster than Adam-Plain early on.",
        _faster(("vadam",), ("adam-plain",)),
    ),
    Claim(
        "rl-early-explore",
        "§6.3, App. K",
        "Vadam learns faster than Adam-Explore early on.",
        _faster(("vadam",), ("adam-explore",)),
    ),
    Claim(
        "rl-vadagrad-early",
        "App. K",
        "VadaGrad learns faster than SGD- and Adam-based methods initially.",
        _faster(("vadagrad",), ("sgd-plain", "sgd-explore", "adam-plain", "adam-explore")),
    ),
    Claim(
        "rl-variance",
        "§5, App. K",
        "In VadaGrad the precision always increases: the variance never grows.",
        never_grows("vadagrad", until=UNTIL, trials_needed=TRIALS),
    ),
    Claim(
        "rl-catch-up", "§6.3, App. K", "The Adam-based methods catch up and reach a comparable final performance.", late
    ),
    Claim(
        "rl-unstable",
        "App. K",
        "Adam-Explore is unstable, with high fluctuations; Vadam is more stable.",
        steadier("vadam", "adam-explore", until=UNTIL, trials_needed=TRIALS),
    ),
    Claim("rl-premature", "App. K", "VadaGrad converges prematurely and is outperformed by Adam-based methods.", late),
    Claim("rl-no-premature", "App. K", "Vadam does not suffer from premature convergence.", late),
    Claim("rl-final", "App. K", "At the end Vadam and Adam-Explore are slightly better than Adam-Plain.", late),
)
