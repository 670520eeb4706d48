"""Run by a test: trains one recorded seed of the image classifiers anew and prints its scores.

A process of its own, because torch settles on a processor's instructions when it is imported.
"""

import json
import sys
from pathlib import Path

import torch

from vadam_paper.experiments import find
from vadam_paper.experiments.image import task
from vadam_paper.experiments.image.run import seed_result
from vadam_paper.experiments.image.train import Plan
from vadam_paper.experiments.results import read_results


def main(root: Path, method: str) -> None:
    torch.set_num_threads(1)  # as the runner does: sums in another order are other numbers
    run = read_results(root, find("image"))["text"]
    config = find("image").config_like(run.config)
    plan = Plan(config, "group", method, run[f"group-{method}"]["chosen"], ("seed", 0))
    print(json.dumps(seed_result(plan, task.task(config, task.load(config), 0))))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
