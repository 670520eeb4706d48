"""Fine-tune a pre-trained network by the Hugging Face Trainer; only the optimizer differs between methods.

All weights have a prior at the pre-trained ones (``prior="init"``). A LoRA adapter starts at no change, so that the same
prior means "no change".
"""

import math
import tempfile
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from vadam import optim
from vadam.baselines import MAP
from vadam.gaussian import UninformedPosterior
from vadam.likelihoods import Categorical
from vadam.optim.base import VariationalOptimizer
from vadam.prediction import Classes, predict
from vadam_paper.experiments import halton
from vadam_paper.experiments.halton import Range, Settings
from vadam_paper.experiments.intent.config import Config
from vadam_paper.experiments.intent.network import Tokens, network
from vadam_paper.experiments.memory import PeakMemory
from vadam_paper.experiments.optimizer_setup import Setup, adamw
from vadam_paper.experiments.randomness import generator
from vadam_paper.experiments.timing import Stopwatch

BATCH_SIZE = 32
EPOCHS = 4
SAMPLES = 8
"""Draws of a prediction."""
TUNING_SAMPLES = 4
PREDICTED_AT_ONCE = 100
BETAS = (0.9, 0.99)
START = 10.0
"""Precision of the posterior at the start, as a multiple of the prior's."""
SPACES: dict[str, dict[str, dict[str, Range]]] = {
    "lora": {
        "adamw": {"lr": (1e-3, 3e-2), "weight_decay": (1e-3, 0.3)},
        "vadam": {"lr": (1e-3, 3e-2), "temperature": (1e-4, 1e-2), "prior_precision": (0.1, 3.0)},
        "ivon": {"lr": (0.1, 10.0), "data_weight": (10.0, 1000.0), "prior_precision": (1.0, 100.0)},
        "vogn": {"lr": (3e-4, 3e-2), "temperature": (1e-4, 1e-2), "prior_precision": (0.1, 3.0)},
    },
    "full": {
        "adamw": {"lr": (1e-4, 1e-3), "weight_decay": (1e-3, 0.3)},
        "vadam": {"lr": (1e-4, 1e-3), "temperature": (1e-6, 1e-4), "prior_precision": (0.1, 3.0)},
        "ivon": {"lr": (0.03, 3.0), "data_weight": (300.0, 30_000.0), "prior_precision": (1.0, 100.0)},
    },
}
"""Ranges of the settings of each way, all on a logarithmic scale."""


def settings(way: str, method: str, trial: int) -> Settings:
    """Return the settings of a trial."""
    return halton.settings(SPACES[way][method], trial)


def methods(config: Config, way: str) -> tuple[str, ...]:
    """Return the methods of a way: VOGN cannot do all weights, as BERT's position embeddings see no separate examples."""
    return tuple(method for method in config.way_methods if method in SPACES[way])


def _start(given: Setup) -> float:
    return START * given.settings["prior_precision"] / given.settings["temperature"]


def _vadam(given: Setup) -> torch.optim.Optimizer:
    start = _start(given)
    return given.make(optim.Vadam, betas=BETAS, prior="init", init_precision=start, batch_size=given.batch_size)


def _ivon(given: Setup) -> torch.optim.Optimizer:
    return given.make(optim.IVON, betas=(0.9, 0.999), prior="init", hess_init=0.01, clip_radius=math.inf)


def _vogn(given: Setup) -> torch.optim.Optimizer:
    rates = {"beta": BETAS[1], "momentum": BETAS[0], "damping": 1e-4}
    return given.make(optim.VOGN, **rates, prior="init", init_precision=_start(given))


MAKE: dict[str, Callable[[Setup], torch.optim.Optimizer]] = {
    "adamw": adamw,
    "vadam": _vadam,
    "ivon": _ivon,
    "vogn": _vogn,
}


class FineTuned(NamedTuple):
    """A network, its posterior (None for a single network), and what its training took."""

    model: nn.Module
    posterior: Any | None
    cost: dict[str, float]

    def predict(self, queries: Tokens, samples: int, noise: torch.Generator) -> Classes:
        posterior = self.posterior
        if posterior is None:
            posterior, samples = MAP(), 1
            posterior.model = self.model
        with warnings.catch_warnings():  # bad settings may leave a posterior that is all prior
            warnings.simplefilter("ignore", UninformedPosterior)
            found = predict(
                self.model, posterior, _batches(queries), samples, likelihood=Categorical(), generator=noise, vmap=False
            )
        assert isinstance(found, Classes)
        return found


def _batches(queries: Tokens) -> list[dict[str, torch.Tensor]]:
    """Return the inputs in batches of like length, without columns that are padding alone."""
    pieces = zip(*(part.split(PREDICTED_AT_ONCE) for part in queries[:2]), strict=True)
    return [
        {"input_ids": ids[:, : int(mask.sum(1).max())], "attention_mask": mask[:, : int(mask.sum(1).max())]}
        for ids, mask in pieces
    ]


def fit(config: Config, way: str, method: str, chosen: Settings, seed: int, train: Tokens) -> FineTuned:
    """Fine-tune by the Trainer as it is; the rate falls to zero along a half cosine."""
    from transformers import Trainer, TrainingArguments

    clock, memory = Stopwatch(), PeakMemory()
    model = network(config, way, int(train.labels.max()) + 1, seed)
    params = [p for p in model.parameters() if p.requires_grad]
    noise = generator(config.seed, seed, "noise")
    optimizer = MAKE[method](Setup(params, chosen, len(train.labels), BATCH_SIZE, noise))
    if method == "vogn":
        optimizer.attach(model)  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            num_train_epochs=EPOCHS,
            per_device_train_batch_size=BATCH_SIZE,
            lr_scheduler_type="cosine",
            seed=1 + seed,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        )
        Trainer(model=model, args=arguments, train_dataset=train.rows(), optimizers=(optimizer, None)).train()
    posterior = None
    if isinstance(optimizer, VariationalOptimizer):
        optimizer.eval()
        posterior = optimizer.posterior(model)
        optimizer.detach()
    cost = {"cpu_seconds": clock.elapsed().cpu_seconds, "megabytes": memory.megabytes() or 0.0}
    return FineTuned(model.eval(), posterior, cost)
