"""The paper's claims about exploration in deep reinforcement learning."""

from functools import partial

from vadam_paper.experiments.half_cheetah.table import UNTIL
from vadam_paper.experiments.ledger import Claim
from vadam_paper.experiments.rl.records import final, unrest
from vadam_paper.experiments.rl.verdicts import ahead, comparable, compared, never_grows, not_behind

TRIALS = 5
END = 3_000_000
_early = partial(compared, until=UNTIL, fewest=TRIALS)
_at_the_end = partial(compared, measure=final, until=END, fewest=TRIALS)
OURS = ("vadam", "vadagrad")
ADAM = ("adam-plain", "adam-explore")

CLAIMS = (
    Claim(
        "rl-sgd-plain",
        "§6.3, Fig. 3",
        "VadaGrad and Vadam clearly learn faster than SGD-Plain.",
        _early(OURS, ("sgd-plain",)),
    ),
    Claim(
        "rl-sgd-explore",
        "§6.3, Fig. 3",
        "VadaGrad and Vadam clearly learn faster than SGD-Explore.",
        _early(OURS, ("sgd-explore",)),
    ),
    Claim(
        "rl-sgd-late",
        "App. K",
        "The SGD-based methods do not learn well throughout.",
        _at_the_end(("vadam", *ADAM), ("sgd-plain", "sgd-explore")),
    ),
    Claim(
        "rl-early",
        "§6.3, App. K",
        "Vadam learns faster than Adam-Plain early on.",
        _early(("vadam",), ("adam-plain",)),
    ),
    Claim(
        "rl-early-explore",
        "§6.3, App. K",
        "Vadam learns faster than Adam-Explore early on.",
        _early(("vadam",), ("adam-explore",)),
    ),
    Claim(
        "rl-vadagrad-early",
        "App. K",
        "VadaGrad learns faster than SGD- and Adam-based methods initially.",
        _early(("vadagrad",), ("sgd-plain", "sgd-explore", "adam-plain", "adam-explore")),
    ),
    Claim(
        "rl-variance",
        "§5, App. K",
        "In VadaGrad the precision always increases: the variance never grows.",
        never_grows("vadagrad", until=UNTIL, fewest=TRIALS),
    ),
    Claim(
        "rl-catch-up",
        "§6.3, App. K",
        "The Adam-based methods catch up and reach a comparable final performance.",
        _at_the_end(("vadam",), ADAM, comparable),
    ),
    Claim(
        "rl-unstable",
        "App. K",
        "Adam-Explore is unstable, with high fluctuations; Vadam is more stable.",
        _early(("adam-explore",), ("vadam",), ahead, measure=unrest),
    ),
    Claim(
        "rl-premature",
        "App. K",
        "VadaGrad converges prematurely and is outperformed by Adam-based methods.",
        _at_the_end(ADAM, ("vadagrad",)),
    ),
    Claim(
        "rl-no-premature",
        "App. K",
        "Vadam does not suffer from premature convergence.",
        _at_the_end(("vadam",), ADAM, not_behind),
    ),
    Claim(
        "rl-final",
        "App. K",
        "At the end Vadam and Adam-Explore are slightly better than Adam-Plain.",
        _at_the_end(("vadam", "adam-explore"), ("adam-plain",)),
    ),
)
