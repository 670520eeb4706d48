"""Train many small networks as one batched computation: cross-validation and sweeps at a fraction of their cost.

    members = [Member(x, y, train=rows, test=others, seed=i, prior_precision=lam, noise_precision=tau) for ...]
    training = train(members, MLP(13, 50, 1), Method("vadam", lr=0.01, betas=(0.9, 0.99), samples=10), jobs=2)
    training.scores["rmse"], training.scores["log_likelihood"], training.stack.posterior(0)

``Trainer`` takes the steps one by one. ``vadam.tuning`` searches for the members' hyper-parameters.
"""

from vadam.ensemble.members import Member, Scaling
from vadam.ensemble.method import Method, rule_names
from vadam.ensemble.minibatches import cosine
from vadam.ensemble.mlp import MLP
from vadam.ensemble.stack import Stack
from vadam.ensemble.trainer import Settings, Trainer
from vadam.ensemble.training import Training, train

__all__ = [
    "MLP",
    "Member",
    "Method",
    "Scaling",
    "Settings",
    "Stack",
    "Trainer",
    "Training",
    "cosine",
    "rule_names",
    "train",
]
