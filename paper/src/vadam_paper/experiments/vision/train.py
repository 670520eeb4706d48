"""Train a network by any method, with one loop and one budget, resumable after every epoch."""

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from vadam.baselines import MCDropout
from vadam.likelihoods import Categorical
from vadam.optim.base import VariationalOptimizer
from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.halton import Settings
from vadam_paper.experiments.lenet import lenet5
from vadam_paper.experiments.memory import PeakMemory
from vadam_paper.experiments.optimizer_setup import Setup
from vadam_paper.experiments.optimizer_state import load_tensors, tensors_of
from vadam_paper.experiments.randomness import generator
from vadam_paper.experiments.timing import Stopwatch
from vadam_paper.experiments.vision.config import Config
from vadam_paper.experiments.vision.methods import MAKE, steps_an_epoch
from vadam_paper.experiments.vision.peers import PEERS
from vadam_paper.experiments.vision.swag import SWAG
from vadam_paper.experiments.vision.task import Task

COLLECT_FROM = 0.75
"""Fraction of the training after which SWAG's rate is constant and weights are collected."""
COLLECTIONS_AN_EPOCH = 4


class Plan(NamedTuple):
    """One network to train; ``seed`` names its start, the order of the images and the noise, for all methods alike."""

    config: Config
    method: str
    settings: Settings
    seed: int
    epochs: int


class Training:
    """A network in training, with its cost so far."""

    def __init__(self, plan: Plan, task: Task) -> None:
        self.plan, self.epoch = plan, 0
        self._memory = PeakMemory()
        self.cost = {"cpu_seconds": 0.0, "megabytes": 0.0}
        self.task = task
        torch.manual_seed(self._generator("start").initial_seed())
        self.model = lenet5(plan.config.widths)
        self.noise = torch.Generator()
        weights = [*self.model.parameters()]
        setup = Setup(weights, plan.settings, len(task.train.y), plan.config.batch_size, self.noise)
        peer = PEERS.get(plan.method)
        self.peer = peer and peer(self.model, setup)
        self.optimizer: torch.optim.Optimizer = self.peer.optimizer if self.peer else MAKE[plan.method](setup)
        if isinstance(self.optimizer, VariationalOptimizer):
            self.optimizer.attach(self.model)
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        self.swag = SWAG(self.model) if plan.method == "swag" else None
        self.dropout = MCDropout(plan.settings["rate"], drop_inputs=False) if plan.method == "mc-dropout" else None

    def run(self, epochs: int, context: CellContext, store: CellContext) -> None:
        """Train until so many epochs are done; write every epoch to the checkpoint of ``store``."""
        first = self.epoch
        while self.epoch < epochs:
            clock = Stopwatch()
            self.advance()
            self.cost["cpu_seconds"] += clock.elapsed().cpu_seconds
            if self.epoch == 1:
                self.cost["megabytes"] = self._memory.megabytes() or 0.0
            context.report((self.epoch - first) / (epochs - first + 1))
            if self.peer is None:  # the state of peers is not in their state_dict
                (store.write if self.epoch == epochs else store.checkpoint)(self.tensors(), self.meta())
        self.model.eval()

    def advance(self) -> None:
        """Train for one epoch."""
        config, (X, y) = self.plan.config, self.task.train
        order = torch.randperm(len(y), generator=self._generator("order", self.epoch))
        self.noise.manual_seed(self._generator("noise", self.epoch).initial_seed())
        torch.manual_seed(self._generator("noise", self.epoch).initial_seed())  # for peers, which draw from it
        likelihood, steps = Categorical(), steps_an_epoch(config)
        self.model.train()
        with self.dropout.dropping_inputs(self.model, self.noise) if self.dropout else nullcontext():
            for step, rows in enumerate(order.split(config.batch_size)):
                self._set_rate(self.epoch + step / steps)
                with self._sampled():
                    self.optimizer.zero_grad()
                    likelihood.nll(self.model(self.task.scale(X[rows])), y[rows]).backward()
                self.optimizer.step()
                if self.swag and self._collects(step, steps):
                    self.swag.collect(self.model)
        self.epoch += 1

    def _sampled(self) -> AbstractContextManager[Any]:
        return self.peer.sampled() if self.peer else nullcontext()

    def _set_rate(self, epoch: float) -> None:
        """Let the rate fall along a half cosine: to zero at the end, or for SWAG to a constant from three quarters on."""
        last = self.plan.settings["constant"] if self.swag else 0.0
        done = min(1.0, epoch / self.plan.epochs / (COLLECT_FROM if self.swag else 1.0))
        factor = last + (1 - last) * (1 + math.cos(math.pi * done)) / 2
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = factor * rate

    def _collects(self, step: int, steps: int) -> bool:
        return (
            self.epoch >= int(COLLECT_FROM * self.plan.epochs) and (step + 1) % -(-steps // COLLECTIONS_AN_EPOCH) == 0
        )

    def posterior(self) -> Any | None:
        """Return the posterior of the method, or None for one that trains a single network."""
        if isinstance(self.optimizer, VariationalOptimizer):
            return self.optimizer.posterior(self.model)
        if self.dropout:
            self.dropout.model = self.model
            return self.dropout
        if self.peer:
            return self.peer.posterior()
        return self.swag if self.swag and self.swag.count > 1 else None

    def tensors(self) -> dict[str, Tensor]:
        kept = {f"model/{name}": value for name, value in self.model.state_dict().items()}
        return kept | tensors_of(self.optimizer, "optimizer") | (self.swag.tensors() if self.swag else {})

    def meta(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "cost": self.cost}

    def load(self, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
        self.model.load_state_dict({k.removeprefix("model/"): v for k, v in tensors.items() if k.startswith("model/")})
        load_tensors(self.optimizer, "optimizer", tensors)
        if self.swag:
            self.swag.load(tensors)
        self.epoch, self.cost = meta["epoch"], meta["cost"]
        self.model.eval()

    def _generator(self, *names: object) -> torch.Generator:
        return generator(self.plan.config.seed, self.plan.seed, *names)


def trained(plan: Plan, task: Task, key: str, epochs: int, context: CellContext) -> Training:
    """Return the training after so many epochs; resume from the checkpoint ``key`` if there is one."""
    store = context.shared_checkpoint(key)
    training = Training(plan, task)
    restored = store.restore()
    if restored and restored[1]["epoch"] <= epochs:
        training.load(*restored)
    training.run(epochs, context, store)
    return training


def num_weights(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())
