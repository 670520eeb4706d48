"""Permuted MNIST: five tasks one after the other, without the images of earlier tasks.

Task k shows all images with their pixels in the order of permutation k; task 0 has them as they are. Adam goes on from the weights of
the task before. A variational optimizer also takes the posterior of the task before as its prior. ``joint`` is Adam on all tasks at
once, which none of the others may do.
"""

from pathlib import Path
from typing import Any

import torch

from vadam_paper.experiments.labelled import Labelled
from vadam_paper.experiments.posterior.config import Config
from vadam_paper.experiments.posterior.fit import SETTINGS, Settings, mlp, scores, train
from vadam_paper.experiments.posterior.images import SIDE, Images, load
from vadam_paper.experiments.randomness import generator


def tune(config: Config, method: str, data: Path | None) -> dict[str, Any]:
    """Return the validation accuracy of every setting, and the best: the mean over tasks after the last of them."""
    images = load(config, "mnist", config.train_images, data)
    search: list[dict[str, Any]] = []
    for settings in SETTINGS["adam" if method == "joint" else method][: config.settings]:
        found = learn(config, method, settings, images, images.validation, "tune")
        search.append({"settings": settings, "accuracy": sum(found["after_last"]) / config.tasks})
    return {"search": search, "settings": max(search, key=lambda trial: trial["accuracy"])["settings"]}


def test(config: Config, method: str, settings: Settings, seed: int, data: Path | None) -> dict[str, Any]:
    images = load(config, "mnist", config.train_images, data)
    return {"settings": settings, **learn(config, method, settings, images, images.test, seed)}


def learn(
    config: Config, method: str, settings: Settings, images: Images, scored: Labelled, seed: object
) -> dict[str, list[float]]:
    """Learn all tasks and return the accuracy of each when it was learned, and after the last one."""
    model, when_learned, posterior = mlp(config, "continual", seed), [], None
    if method == "joint":
        tasks = [task(config, images.train, k, seed) for k in range(config.tasks)]
        together = Labelled(torch.cat([part.X for part in tasks]), images.train.y.repeat(config.tasks))
        train(model, together, "adam", settings, config, "joint", seed, epochs=config.continual_epochs)
    else:
        for k in range(config.tasks):
            names, shown = ("continual", seed, k), task(config, images.train, k, seed)
            posterior = train(
                model, shown, method, settings, config, *names, epochs=config.continual_epochs, prior=posterior
            )
            when_learned.append(scores(model, task(config, scored, k, seed))["accuracy"])
    after_last = [scores(model, task(config, scored, k, seed))["accuracy"] for k in range(config.tasks)]
    return {"when_learned": when_learned or after_last, "after_last": after_last}


def task(config: Config, part: Labelled, k: int, seed: object) -> Labelled:
    """Return a part as task k shows it; each seed has its own permutations."""
    if k == 0:
        return part
    order = torch.randperm(SIDE * SIDE, generator=generator(config.seed, "permutation", seed, k))
    return Labelled(part.X.flatten(1)[:, order].view_as(part.X), part.y)
