"""Train all seeds of one method as one stack of networks with ``vadam.ensemble``, and evaluate it every few steps."""

import math
from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor

from vadam.ensemble import MLP, Member, Method, Settings, Trainer
from vadam_paper.data import Split
from vadam_paper.experiments.australian.config import Config

ELBO_SAMPLES = 100
FOREVER = 10**6
"""Epochs: more than any run has."""


class Stack:
    """A stack of E networks with Bernoulli outputs and seeds ``seed``, ``seed`` + 1, ..., on one split of the data."""

    def __init__(
        self, X: Tensor, y: Tensor, split: Split, network: MLP, method: Method, batch_size: int, config: Config
    ) -> None:
        self.train_rows = X[split.train], y[split.train]
        self.test_rows = X[split.test], y[split.test]
        members = [
            Member(X, y, train=split.train, seed=seed, lr=config.lr, prior_precision=config.prior_precision)
            for seed in range(config.seed, config.seed + config.seeds)
        ]
        settings = Settings(
            network, method, "bernoulli", FOREVER, batch_size, standardise=False, engine="bmm", compiled=config.compiled
        )
        self.trainer = Trainer(members, settings)

    def train(self, first: int, last: int) -> Iterator[int]:
        """Take the steps after ``first`` up to ``last``, and yield the number of each."""
        for step, batch in enumerate(islice(self.trainer.batches(first), last - first), start=first + 1):
            self.trainer.step(batch)
            yield step

    def test_log_losses(self, samples: int, step: int) -> tuple[Tensor, Tensor]:
        """Return the joint and the pointwise test log-loss in bits, [E] each.

        Joint: −(1/n) log₂ mean_s Π_i p(y_i | θ_s). Pointwise: −(1/n) Σ_i log₂ mean_s p(y_i | θ_s).
        """
        log_p = self.trainer.stack.log_prob(*self.test_rows, samples, draw=step)
        log_S, n = math.log(samples), log_p.shape[-1]
        joint = (log_p.sum(-1).logsumexp(1) - log_S) / n
        pointwise = (log_p.logsumexp(1) - log_S).mean(-1)
        return -joint / math.log(2), -pointwise / math.log(2)

    def nelbo_per_datum(self) -> Tensor:
        """Return −ELBO/N in nats, [E]: mean training loss over samples of q, plus KL(q‖prior)/N."""
        stack, N = self.trainer.stack, len(self.train_rows[1])
        kl = torch.stack([stack.posterior(e).kl() for e in range(len(stack))])
        return -stack.log_prob(*self.train_rows, ELBO_SAMPLES).mean((1, 2)) + kl / N
