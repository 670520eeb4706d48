"""Measure how long a default fit of an estimator takes, tuning included, and how good it is.

    python -m benchmarks.estimators [--only "regressor, 1,000 rows"] [--out benchmarks/results/estimators.json]

Generated tables (``make_friedman1`` with noise of deviation 1, ``make_classification`` with five classes) of 1,000 rows on one core
and of 50,000 rows on two. Seconds are those of the clock, so run it on an idle machine. ``benchmarks/tabular.py`` compares the estimators
with others on real tables.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import make_classification, make_friedman1

from benchmarks.timing import write
from vadam.estimators import VadamClassifier, VadamRegressor

TEST_ROWS = 1_000
BARS = {"regressor, 1,000 rows": 5.0, "regressor, 50,000 rows": 300.0}
"""Seconds that a fit may take."""


def regressor(rows: int, cores: int) -> dict[str, Any]:
    X, y = make_friedman1(rows + TEST_ROWS, noise=1.0, random_state=0)
    started = time.perf_counter()
    model = VadamRegressor(random_state=0, n_jobs=cores).fit(X[:rows], y[:rows])
    seconds = time.perf_counter() - started
    low, high = model.predict_interval(X[rows:], 0.9).T
    covered = float(np.mean((low <= y[rows:]) & (y[rows:] <= high)))
    score = model.log_likelihood(X[rows:], y[rows:])
    return {"cores": cores, "seconds": seconds, "log_likelihood": score, "coverage": covered}


def classifier(rows: int, cores: int) -> dict[str, Any]:
    X, y = make_classification(rows + TEST_ROWS, 10, n_informative=6, n_classes=5, random_state=0)
    started = time.perf_counter()
    model = VadamClassifier(random_state=0, n_jobs=cores).fit(X[:rows], y[:rows])
    seconds = time.perf_counter() - started
    return {"cores": cores, "seconds": seconds, "log_likelihood": model.log_likelihood(X[rows:], y[rows:])}


CASES = {
    "regressor, 1,000 rows": lambda: regressor(1_000, 1),
    "classifier, 1,000 rows": lambda: classifier(1_000, 1),
    "regressor, 50,000 rows": lambda: regressor(50_000, 2),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(CASES), help="measure this case and record nothing")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "estimators.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = {}
    for name in [options.only] if options.only else list(CASES):
        results[name] = found = CASES[name]()
        print(f"{name:26}{found['seconds']:8.1f} s on {found['cores']} cores, {found}", flush=True)
    if not options.only:
        write(options.out, results)


if __name__ == "__main__":
    main()
