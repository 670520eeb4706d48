"""The work of a cell: find the settings that earlier cells chose, train, score."""

from typing import Any

import torch

from vadam.calibration import TemperatureScaling
from vadam_paper.experiments.context import CellContext
from vadam_paper.experiments.contract import ExperimentError
from vadam_paper.experiments.labelled import Labelled
from vadam_paper.experiments.randomness import generator
from vadam_paper.experiments.timing import Stopwatch
from vadam_paper.experiments.vision import methods
from vadam_paper.experiments.vision.config import POOLS, Config
from vadam_paper.experiments.vision.fitted import Fitted, laplace_posteriors, pooled
from vadam_paper.experiments.vision.run import TUNED_ON
from vadam_paper.experiments.vision.scores import draws_curve, test_scores, validation_nll
from vadam_paper.experiments.vision.task import Task, load
from vadam_paper.experiments.vision.train import Plan, Training, num_weights, trained

STEPS_A_ROUND = 25
ROUNDS = 7
"""How often each method takes so many steps while the time of a step is measured."""


class Study:
    """A run of `vision` as one cell sees it."""

    def __init__(self, config: Config, context: CellContext) -> None:
        self.config, self.context = config, context

    def tune(self, method: str, rung: int, rank: int) -> dict[str, Any]:
        """Train a setting until this rung's epoch, from where the rung before left it."""
        trial = self._trial(method, rung, rank)
        if rung and rank == 0:
            self._drop_losers(method, rung)
        epochs, _ = self.config.rungs[rung]
        training = self._trained(TUNED_ON, method, 0, trial, epochs)
        fitted = Fitted(training.model, training.posterior())
        samples, noise = self.config.tuning_samples, generator(self.config.seed, "validation")
        loss = validation_nll(fitted, self._task(TUNED_ON), samples, noise)
        return {"trial": trial, "settings": training.plan.settings, "epochs": epochs, "nll": loss, **training.cost}

    def tune_laplace(self) -> dict[str, Any]:
        """Choose the precision of the prior of the last layer, at AdamW's network."""
        task, model = self._task(TUNED_ON), self._network(TUNED_ON, "adamw", 0).model
        tried = [methods.settings("laplace", trial) for trial in range(self.config.trials)]
        posteriors = laplace_posteriors(model, task, [settings["prior_precision"] for settings in tried])
        losses = []
        for k, posterior in enumerate(posteriors):
            noise = generator(self.config.seed, "validation")
            losses.append(validation_nll(Fitted(model, posterior), task, self.config.tuning_samples, noise))
            self.context.report((k + 1) / (len(tried) + 1))
        search = [{**settings, "nll": loss} for settings, loss in zip(tried, losses, strict=True)]
        return {"search": search, "settings": tried[losses.index(min(losses))]}

    def test(self, name: str, method: str, seed: int) -> dict[str, Any]:
        """Score the chosen setting of a method on test images."""
        task = self._task(name)
        fitted, facts = self._fitted(name, method, seed)
        scores = test_scores(self.config, fitted, task, self._noise(name, seed))
        return {**facts, **scores, "weights": num_weights(fitted.model)}

    def draws(self, method: str) -> dict[str, Any]:
        """Score the first seed's network with 1, 2, 4, … draws."""
        fitted, _ = self._fitted(TUNED_ON, method, 0)
        return {"nll": draws_curve(self.config, fitted, self._task(TUNED_ON), self._noise(TUNED_ON, 0))}

    def speed(self) -> dict[str, Any]:
        """Train every method in turn, a few steps at a time, and measure the processor time of a step.

        Trainings of other cells took place at other times, when the processor was perhaps slower.
        """
        task, size = self._task(TUNED_ON), STEPS_A_ROUND * self.config.batch_size
        task = task._replace(train=Labelled(task.train.X[:size], task.train.y[:size]))
        steps = -(-len(task.train.y) // self.config.batch_size)
        trainings = {
            method: Training(self._first_plan(method), task) for method in methods.trained(self.config.methods)
        }
        found: dict[str, list[float]] = {method: [] for method in trainings}
        for k in range(ROUNDS + 1):
            for method, training in trainings.items():
                clock = Stopwatch()
                training.advance()
                if k:  # the first round compiles
                    found[method].append(1e3 * clock.elapsed().cpu_seconds / steps)
            self.context.report((k + 1) / (ROUNDS + 2))
        return {"milliseconds": found}

    def longer(self, method: str, epochs: int) -> dict[str, Any]:
        """Train the chosen setting for another number of epochs, and score it."""
        trial = self._chosen(method)
        plan = Plan(self.config, method, methods.settings(method, trial), 0, epochs)
        task = self._task(TUNED_ON)
        training = trained(plan, task, f"long-{method}-{epochs}", epochs, self.context)
        fitted = Fitted(training.model, training.posterior())
        return {"epochs": epochs, **training.cost, **test_scores(self.config, fitted, task, self._noise(TUNED_ON, 0))}

    def _fitted(self, name: str, method: str, seed: int) -> tuple[Fitted, dict[str, Any]]:
        """Return the model of a method, and what is recorded of its making."""
        if method in POOLS:
            of = "adamw" if method == "deep-ensemble" else self._mixed()
            each = [self._network(name, of, member) for member in range(self.config.members)]
            members = [Fitted(training.model, training.posterior()) for training in each]
            costs = [training.cost for training in each]
            cost = {
                "cpu_seconds": sum(cost["cpu_seconds"] for cost in costs),
                "megabytes": max(cost["megabytes"] for cost in costs),
            }
            return pooled(members, self.config.member_samples), {"of": of, "settings": each[0].plan.settings, **cost}
        training = self._network(name, methods.SETTINGS_FROM.get(method, method), seed, method)
        fitted, facts = Fitted(training.model, training.posterior()), dict(training.cost)
        if method == "adamw-scaled":
            task = self._task(name)
            prediction = fitted.drawn(1, generator(0)).predict(task.scale(task.validation.X))
            temperature = TemperatureScaling.fit(prediction, task.validation.y).temperature
            return fitted._replace(temperature=temperature), {"settings": {"temperature": temperature}, **facts}
        if method == "laplace":
            settings = self.context.result_of("tune.laplace")["settings"]
            posterior = laplace_posteriors(training.model, self._task(name), [settings["prior_precision"]])[0]
            return fitted._replace(posterior=posterior), {"settings": settings, **facts}
        return fitted, {"settings": training.plan.settings, **facts}

    def _network(self, name: str, settings_of: str, seed: int, method: str | None = None) -> Training:
        """Return the network that the chosen setting of a method trains, from its checkpoint if there is one."""
        trained_by = method if method == "ivon-opt" else settings_of
        return self._trained(name, trained_by, seed, self._chosen(settings_of), self.config.epochs, settings_of)

    def _first_plan(self, method: str) -> Plan:
        """Return the plan of a method's first setting."""
        first = methods.settings(methods.SETTINGS_FROM.get(method, method), 0)
        return Plan(self.config, method, first, 0, self.config.epochs)

    def _trained(
        self, name: str, method: str, seed: int, trial: int, epochs: int, settings_of: str | None = None
    ) -> Training:
        plan = Plan(self.config, method, methods.settings(settings_of or method, trial), seed, self.config.epochs)
        key = _checkpoint_key(name, method, seed, trial)
        return trained(plan, self._task(name), key, epochs, self.context)

    def _trial(self, method: str, rung: int, rank: int) -> int:
        """Return the number of the setting that has this rank at the end of the rung before."""
        return rank if rung == 0 else self._ranked(method, rung - 1)[rank]

    def _ranked(self, method: str, rung: int) -> list[int]:
        """Return the settings of a rung, the one with the least validation loss first."""
        return [one["trial"] for one in sorted(self._results(method, rung), key=_loss)]

    def _results(self, method: str, rung: int) -> list[dict[str, Any]]:
        return [self.context.result_of(f"tune.{method}.{rung}.{k}") for k in range(self.config.rungs[rung][1])]

    def _chosen(self, method: str) -> int:
        return self._ranked(method, len(self.config.rungs) - 1)[0]

    def _mixed(self) -> str:
        """Return the method of a mixture, the best one on validation images."""
        found = [method for method in methods.MIXED if method in self.config.methods]
        if not found:
            raise ExperimentError(
                f"The mixture needs {' or '.join(methods.MIXED)} among the methods, which are {', '.join(self.config.methods)}."
            )
        last = len(self.config.rungs) - 1
        return min(found, key=lambda method: min(map(_loss, self._results(method, last))))

    def _drop_losers(self, method: str, rung: int) -> None:
        for trial in self._ranked(method, rung - 1)[self.config.rungs[rung][1] :]:
            self.context.shared_checkpoint(_checkpoint_key(TUNED_ON, method, 0, trial)).finish()

    def _task(self, name: str) -> Task:
        return load(self.config, name, self.context.data)

    def _noise(self, name: str, seed: int) -> torch.Generator:
        return generator(self.config.seed, "prediction", name, seed)


def _loss(result: dict[str, Any]) -> float:
    """Return the validation loss; one that is not finite, which is stored as None, comes last."""
    return float("inf") if result["nll"] is None else float(result["nll"])


def _checkpoint_key(name: str, method: str, seed: int, trial: int) -> str:
    return f"net.{name}.{method}.{seed}.{trial}"
