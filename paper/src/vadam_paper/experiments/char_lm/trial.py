"""One training run by truncated back-propagation: tested after each epoch, and resumable bit for bit."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vadam.optim.base import VariationalOptimizer
from vadam_paper.experiments.char_lm.config import Config
from vadam_paper.experiments.char_lm.methods import Method
from vadam_paper.experiments.char_lm.network import LanguageModel, State, detached
from vadam_paper.experiments.char_lm.text import Corpus, Streams, streams
from vadam_paper.experiments.optimizer_state import load_tensors, tensors_of
from vadam_paper.experiments.randomness import generator

STEPS_AT_ONCE = 500
"""Chunk length in evaluation; it affects only the speed."""


class Trial:
    """A language model in training, with its losses after each epoch."""

    def __init__(self, config: Config, method: Method, seed: int, text: Corpus) -> None:
        self.config, self.method, self.seed = config, method, config.seed + seed
        self.train, self.validation, self.test = (streams(part, config.sequences, config.steps) for part in text[:3])
        torch.manual_seed(self._seed("start"))
        self.model = LanguageModel(len(text.vocabulary), config.embedding, config.hidden, config.layers)
        self.weights = [p for p in self.model.parameters() if p.requires_grad]
        self.per_example = {"character": 1, "sequence": config.steps, "text": self.train.x.numel()}[method.example]
        self.noise = torch.Generator()
        self.optimizer = method.make(self.weights, self.train.x.numel() / self.per_example, self.noise)
        if isinstance(self.optimizer, VariationalOptimizer):
            self.optimizer.attach(self.model)
        self.points: list[dict[str, float]] = []

    @property
    def epoch(self) -> int:
        return len(self.points)

    def advance(self) -> None:
        """Train one epoch in the order of the text, from a zero state, and evaluate on validation and test part."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.rate(self.method.alpha, self.method.K, self.epoch)
        self.noise.manual_seed(self._seed("epoch", self.epoch))
        self.model.train()
        losses = [float(loss) for loss in self._steps()]
        validation, test = self._look(self.validation), self._look(self.test)
        self.points.append(
            {
                "train": sum(losses) / len(losses),
                "validation": validation[0],
                "test": test[0],
                "test_bits": test[0] / math.log(2),
                "test_error": test[1],
            }
        )

    def _steps(self) -> "list[Tensor]":
        losses, state = [], None
        for x, y in self.train.chunks(self.config.steps):
            loss, state = self._step(x, y, state)
            losses.append(loss)
        return losses

    def _step(self, x: Tensor, y: Tensor, state: State | None) -> tuple[Tensor, State]:
        """Take a step; return the mean loss of a character, and the state after the last one."""
        self.optimizer.zero_grad()
        logits, after = self.model(x, state)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        (self.per_example * loss).backward()
        nn.utils.clip_grad_value_(self.weights, self.per_example * self.config.clip)
        self.optimizer.step()
        return loss.detach(), detached(after)

    @torch.no_grad()
    def _look(self, part: Streams) -> tuple[float, float]:
        """Return the mean loss in nats per character and the error rate, with the mean weights and a carried state."""
        self.model.eval()
        loss = wrong = 0.0
        state: State | None = None
        for x, y in part.chunks(STEPS_AT_ONCE):
            logits, state = self.model(x, state)
            loss += float(F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum"))
            wrong += int((logits.argmax(-1) != y).sum())
        return loss / part.y.numel(), wrong / part.y.numel()

    def tensors(self) -> dict[str, Tensor]:
        kept = {f"model/{name}": value for name, value in self.model.state_dict().items()}
        return kept | tensors_of(self.optimizer, "optimizer")

    def meta(self) -> dict[str, Any]:
        return {"points": self.points}

    def load(self, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
        self.model.load_state_dict({k.removeprefix("model/"): v for k, v in tensors.items() if k.startswith("model/")})
        load_tensors(self.optimizer, "optimizer", tensors)
        self.points = meta["points"]

    def summary(self) -> dict[str, Any]:
        curve = {name: [float(f"{point[name]:.5g}") for point in self.points] for name in self.points[0]}
        return {"epochs": self.epoch, "updates": self.epoch * -(-self.train.x.shape[1] // self.config.steps), **curve}

    def _seed(self, *names: object) -> int:
        """Return a seed that all methods share."""
        return int(torch.randint(1 << 31, (), generator=generator(self.seed, *names)))
