"""Cuts: a training is cut after a random step, saved, and resumed in a new interpreter; it ends at the bits of the run without a cut.

``python -m torture.cuts FOLDER`` is that interpreter: it resumes every training in the folder and compares.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from specs import SPECS, Problem, Spec, same, snapshot
from torture.case import Break, Case, Failed, Kind, Outcome, Part

CUTS = 20
"""Trainings that one new interpreter resumes."""
DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}


class Training:
    """One optimizer, one way of use, and everything else that a loop keeps between steps."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.spec: Spec = next(spec for spec in SPECS if spec.name == plan["optimizer"])
        self.problem = Problem(DTYPES[plan["dtype"]], seed=plan["seed"])
        options = dict(plan["options"])
        if plan["own generator"]:
            options["generator"] = torch.Generator().manual_seed(plan["seed"] + 1)
        model = self.problem.model
        params: Any = model.parameters()
        if plan["groups"]:
            params = [{"params": model[0].parameters()}, {"params": model[2].parameters(), "deterministic": True}]
        self.opt = self.spec.make(params, **options)
        if self.spec.needs_attach or plan["way"] == "attach":
            self.opt.attach(model)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, 20) if plan["scheduler"] else None
        torch.manual_seed(plan["seed"] + 2)

    def train(self, steps: range) -> None:
        for k in steps:
            rows = slice((7 * k) % 30, (7 * k) % 30 + 10)
            if k == self.plan["overflow"]:
                self._overflow()
            else:
                self.problem.step(self.opt, self.spec, self.plan["way"], rows)
            if self.scheduler is not None:
                self.scheduler.step()

    def _overflow(self) -> None:
        """Take a step that is skipped, because its loss is infinite."""
        loss = self.problem.loss
        self.problem.loss = lambda rows=slice(None): loss(rows) * float("inf")  # type: ignore[method-assign]
        self.problem.step(self.opt, self.spec, self.plan["way"])
        self.problem.loss = loss  # type: ignore[method-assign]

    def save(self, path: Path) -> None:
        content = {
            "model": self.problem.model.state_dict(),
            "opt": self.opt.state_dict(),
            "torch": torch.get_rng_state(),
        }
        torch.save(content | {"scheduler": self.scheduler and self.scheduler.state_dict()}, path)

    def load(self, path: Path) -> None:
        content = torch.load(path, weights_only=True)
        self.problem.model.load_state_dict(content["model"])
        torch.set_rng_state(content["torch"])
        self.opt.load_state_dict(content["opt"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(content["scheduler"])

    def everything(self) -> list[torch.Tensor]:
        return [
            *self.problem.weights(),
            *snapshot(self.opt),
            torch.get_rng_state(),
            torch.tensor(self.opt.skipped_steps),
        ]


def plan(random: random.Random) -> dict[str, Any]:
    """Return a training and where it is cut."""
    spec = random.choice(SPECS)
    options: dict[str, Any] = {"nonfinite": "skip", "samples": random.choice((1, 1, 2, 4))}
    options["backend"] = random.choice(("plain", "native", "auto"))
    options["antithetic"] = options["samples"] > 1 and random.random() < 0.5
    options["store_mean"] = random.random() < 0.8
    if spec.has_prior and spec.mean_field and random.random() < 0.2:
        options |= {"learn_prior_every": 2}
    if spec.has_prior and random.random() < 0.2:
        options |= {"temperature": 0.5, "prior": "init"}
    dtypes = [*DTYPES][: 3 if spec.mean_field and spec.backward and spec.elementwise else 2]
    steps = random.randrange(2, 9)
    overflow = random.randrange(steps) if random.random() < 0.3 and spec.differentiable else -1
    return {
        "optimizer": spec.name,
        "way": random.choice(spec.ways),
        "options": options,
        "dtype": random.choice(dtypes),
        "groups": spec.backward and spec.has_prior and random.random() < 0.3,
        "own generator": random.random() < 0.5,
        "scheduler": spec.mean_field and random.random() < 0.5,
        "overflow": overflow,
        "seed": random.randrange(2**20),
        "steps": steps,
        "cut": random.randrange(steps),
    }


def usable(plan: dict[str, Any]) -> bool:
    """Return True unless the optimizer refuses the plan's arguments."""
    try:
        Training(plan)
    except ValueError:
        return False
    return True


def cut(case: Case) -> Outcome:
    """Train, save at the cut, train on; let a new interpreter do the same from the file."""
    found = Outcome()
    plans: list[dict[str, Any]] = []
    while len(plans) < CUTS:
        candidate = plan(case.random)
        if usable(candidate):
            plans.append(candidate)
    (case.folder / "plans.json").write_text(json.dumps(plans))
    for k, one in enumerate(plans):
        training = Training(one)
        training.train(range(one["cut"]))
        training.save(case.folder / f"{k}.pt")
        training.train(range(one["cut"], one["steps"]))
        torch.save(training.everything(), case.folder / f"{k}.end.pt")
        found.add(f"on {one['options']['backend']}")
    environment = os.environ | {
        "PYTHONHASHSEED": str(case.random.randrange(2**31)),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-m", "torture.cuts", str(case.folder)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    if result.returncode:
        raise Failed(f"resuming: {result.stdout[-1500:]} {result.stderr[-1500:]}")
    found.add("cuts", result.stdout.count("same"))
    return found


def resume(folder: Path) -> int:
    """Resume all trainings of a folder; print those that end elsewhere."""
    torch.set_num_threads(1)
    wrong = 0
    for k, one in enumerate(json.loads((folder / "plans.json").read_text())):
        torch.manual_seed(k)
        training = Training(one)
        training.load(folder / f"{k}.pt")
        training.train(range(one["cut"], one["steps"]))
        if same(training.everything(), torch.load(folder / f"{k}.end.pt", weights_only=True)):
            print("same", k)
        else:
            wrong += 1
            print("OTHER BITS", json.dumps(one))
    return wrong


KIND = Kind(
    "cuts",
    "A training that is cut after any step and resumed in a new process ends at the bits of the training without a cut.",
    "cuts",
    60,
    200,
    {"resumed": Part(cut, seconds=400)},
    breaks=(
        Break(
            "src/vadam/optim/resume.py",
            '            generator.set_state(seen[_EXTRA]["rng_state"].cpu())\n',
            "            pass\n",
            "resumed",
            "a resumed training draws other noise and ends elsewhere",
        ),
    ),
)


if __name__ == "__main__":
    sys.exit(resume(Path(sys.argv[1])))
