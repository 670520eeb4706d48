"""The work of a cell that fine-tunes the whole network: one setting on validation queries, or the best one on test queries."""

import math
from typing import Any

from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.intent import finetune
from vadam_paper.experiments.intent.config import Config
from vadam_paper.experiments.intent.network import tokens
from vadam_paper.experiments.intent.scores import nll, scores
from vadam_paper.experiments.randomness import generator


def tune(config: Config, way: str, method: str, trial: int, context: CellContext) -> dict[str, Any]:
    """Fine-tune with one setting and score it on validation queries."""
    parts, tried = tokens(config, context.data), finetune.settings(way, method, trial)
    fitted = finetune.fit(config, way, method, tried, 0, parts["train"])
    noise = generator(config.seed, "validation")
    loss = nll(fitted.predict(parts["val"], finetune.TUNING_SAMPLES, noise), parts["val"].labels)
    return {"settings": tried, "nll": loss if math.isfinite(loss) else None, **fitted.cost}


def test(config: Config, way: str, method: str, seed: int, context: CellContext) -> dict[str, Any]:
    """Fine-tune with the setting that has the least validation loss, and score it on test queries."""
    trials = [context.result_of(f"tune.{way}.{method}.{trial}") for trial in range(config.way_trials)]
    chosen = min(trials, key=lambda result: math.inf if result["nll"] is None else result["nll"])["settings"]
    parts = tokens(config, context.data)
    fitted = finetune.fit(config, way, method, chosen, seed, parts["train"])
    home, away = (
        fitted.predict(parts[name], finetune.SAMPLES, generator(config.seed, "prediction", seed))
        for name in ("test", "oos_test")
    )
    sampled = fitted.posterior is not None
    return {"settings": chosen, **fitted.cost, **scores(home, parts["test"].labels, away, sampled=sampled)}
