"""Many small networks trained as one batched computation: cross-validation and sweeps at a fraction of their price.

    members = [Member(x, y, train=rows, test=others, seed=i, prior_precision=lam, noise_precision=tau) for ...]
    training = train(members, MLP(13, 50, 1), Vadam(lr=0.01, betas=(0.9, 0.99), samples=10), jobs=2)
    training.scores["rmse"], training.scores["log_likelihood"], training.stack.posterior(0)

``tune`` finds the members' hyper-parameters by Bayesian optimisation, many searches in lock step.
"""

from vadam.ensemble.chunk import Training
from vadam.ensemble.members import Member, Scaling
from vadam.ensemble.methods import BBVI, IVON, MAP, VOGN, MCDropout, Method, VadaGrad, Vadam, Vprop
from vadam.ensemble.mlp import MLP
from vadam.ensemble.stack import Stack
from vadam.ensemble.train import train
from vadam.ensemble.tune import Tuned, tune

__all__ = [
    "BBVI",
    "IVON",
    "MAP",
    "MLP",
    "VOGN",
    "MCDropout",
    "Member",
    "Method",
    "Scaling",
    "Stack",
    "Training",
    "Tuned",
    "VadaGrad",
    "Vadam",
    "Vprop",
    "train",
    "tune",
]
