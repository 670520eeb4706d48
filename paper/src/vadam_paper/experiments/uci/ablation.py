"""Repeat the final runs of a cell of Table 1 at the points that the search found, with one setting changed.

python -m vadam_paper.experiments.uci.ablation vadam-kin8nm --batch-size 32
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from vadam.ensemble import train
from vadam_paper.experiments.contract import ExperimentError
from vadam_paper.experiments.results import Recorded, read_run
from vadam_paper.experiments.uci import methods
from vadam_paper.experiments.uci.comparison import METRICS, mean, paper, values
from vadam_paper.experiments.uci.config import Config, preset
from vadam_paper.experiments.uci.split_networks import at, final_members


def again(
    run: Recorded, config: Config, cell: str, root: Path | None = None, **changed: float
) -> dict[str, np.ndarray]:
    """Return each metric on every split, with settings changed.

    ``changed``: batch_size, epochs, samples, prior_precision, noise_precision, seed, one_seed. ``seed`` is added to the
    seeds of the splits. ``one_seed`` replaces them, so that all splits share order and noise.
    """
    method, name = cell.rsplit("-", 1)
    found = run[cell]["point"]
    for axis in ("prior_precision", "noise_precision"):
        if axis in changed and axis not in found:
            raise ExperimentError(f"{cell} has no searched {axis.replace('_', ' ')}: choose one of {', '.join(found)}.")
    points = [
        {axis: changed.get(axis, values[split]) for axis, values in found.items()} for split in range(config.splits)
    ]
    moved = int(changed.get("seed", 0))
    members = [replace(m, seed=int(changed.get("one_seed", m.seed + moved))) for m in final_members(config, name, root)]
    setting = methods.setting(config, method, name)
    setting |= {axis: int(changed[axis]) for axis in ("batch_size", "epochs") if axis in changed}
    if "samples" in changed:
        setting["method"] = setting["method"].replace(samples=int(changed["samples"]))
    scores = train(at(points, members), keep=False, **setting).scores
    return {metric: np.asarray(scores[metric]) for metric in METRICS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cell", help="a method and a set, as vadam-kin8nm")
    parser.add_argument("--results", type=Path, default=Path("paper/results/uci/paper-authors"))
    parser.add_argument("--data", type=Path)
    for axis in ("batch-size", "epochs", "samples", "prior-precision", "noise-precision", "seed", "one-seed"):
        parser.add_argument(f"--{axis}", type=float)
    parser.add_argument("--own-starts", action="store_true", help="initialise each network with its own weights")
    chosen = vars(parser.parse_args())
    cell, folder, root, own_starts = (chosen.pop(key) for key in ("cell", "results", "data", "own_starts"))
    changed = {axis: value for axis, value in chosen.items() if value is not None}
    run = read_run(folder)
    if run is None or cell not in run:
        parser.error(f"{cell} is not recorded in {folder}: vadam run uci --preset paper --protocol authors")
    config = preset(run.config["preset"], run.config["protocol"])
    assert isinstance(config, Config)
    try:
        new = again(run, replace(config, first_weights=None) if own_starts else config, cell, root, **changed)
    except ExperimentError as error:
        parser.error(str(error))
    method, name = cell.rsplit("-", 1)
    for metric, title in METRICS.items():
        recorded, papers = values(run, method, name, metric), paper(method, name, metric)
        assert recorded is not None
        beside = "" if papers is None else f"   paper {papers.mean:.2f} ± {papers.error:.2f}"
        print(f"{title:21} recorded {_four(recorded)}   now {_four(new[metric])}{beside}")


def _four(numbers: np.ndarray) -> str:
    return "{:.4f} ± {:.4f}".format(*mean(numbers))


if __name__ == "__main__":
    main()
