"""VadamRegressor beside what people use for tables, on 18 data sets: RMSE, NLL, CRPS, 90 % intervals, seconds of a fit.

    python -m benchmarks.tabular [--folds 10] [--large-folds 1] [--only yacht,bike] [--models "ours;catboost"] [--out FILE]
    python -m benchmarks.tabular --show [--page docs/_static/tabular-ranks.svg]

The eight UCI sets with Gal's splits and ten larger ones with their folds, from the folder that ``VADAM_DATA`` names. Sets below
2,000 rows have ``--folds`` folds, the others ``--large-folds``. Every model sees at most ``ROWS`` training rows and is judged on at
most ``TEST_ROWS`` test rows, the same ones; ``LIMITS`` has the models that cannot take so many. A cell is one model on one fold; it is
appended to a JSONL file when it is done, so that a run that was stopped goes on. Everything runs on one core, and the seconds are those of
the processor. Libraries have their defaults, or tune as they tune themselves. Settings of ours were chosen on the folds from 10 on
(from 9 on where there are ten), which are not in the table.

Models that give a mean and a deviation are Gaussian. Models that give quantiles have the density of a straight line between
neighbouring quantiles and exponential tails; their CRPS is twice the mean pinball loss.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats

from benchmarks.timing import commit

GAL = (
    "bostonHousing",
    "concrete",
    "energy",
    "kin8nm",
    "naval-propulsion-plant",
    "power-plant",
    "wine-quality-red",
    "yacht",
)
SMALL = ("bostonHousing", "concrete", "energy", "wine-quality-red", "yacht")
"""Data sets below 2,000 rows, which need many folds."""
LARGE = (
    "bike",
    "gas",
    "keggdirected",
    "keggundirected",
    "kin40k",
    "parkinsons",
    "pol",
    "protein",
    "sml",
    "tamielectric",
)
LEVELS = np.arange(1, 100) / 100
ROWS, TEST_ROWS = 5_000, 2_000
"""Training and test rows at most, for every model."""
ARD_COLUMNS = 40
"""The Gaussian process has a length scale for each of at most so many columns."""
LIMITS = {"gaussian process": 1_000}
"""Training rows at most, for a model that cannot take more."""
RESULTS = Path(__file__).parent / "results" / "tabular.jsonl"


@dataclass(frozen=True)
class Predicted:
    """A prediction of the test rows."""

    mean: np.ndarray
    log_density: np.ndarray
    crps: float
    low: np.ndarray
    high: np.ndarray


def gaussian(mean: np.ndarray, std: np.ndarray, y: np.ndarray) -> Predicted:
    """Judge a mean and a deviation as a Gaussian."""
    z = (y - mean) / std
    crps = std * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    half = stats.norm.ppf(0.95) * std
    return Predicted(mean, stats.norm.logpdf(y, mean, std), float(crps.mean()), mean - half, mean + half)


def quantiles(levels: np.ndarray, values: np.ndarray, mean: np.ndarray, y: np.ndarray, unit: float) -> Predicted:
    """Judge quantiles [n, K]: straight lines between them, exponential tails, no step below 1/10,000 of ``unit``."""
    values = np.sort(values, axis=1)
    values = values + np.arange(values.shape[1]) * 1e-4 * unit
    log_p = np.empty(len(y))
    for i, (row, target) in enumerate(zip(values, y, strict=True)):
        k = int(np.searchsorted(row, target))
        if 0 < k < len(row):
            log_p[i] = np.log((levels[k] - levels[k - 1]) / (row[k] - row[k - 1]))
            continue
        edge, outside = (row[0], levels[0]) if k == 0 else (row[-1], 1 - levels[-1])
        scale = max((row[-1] - row[0]) / (2 * np.log(0.5 / levels[0])), 1e-4 * unit)
        log_p[i] = np.log(outside / scale) - abs(target - edge) / scale
    error = y[:, None] - values
    pinball = np.maximum(levels * error, (levels - 1) * error)
    weight = np.gradient(levels)
    crps = 2 * float((pinball.mean(0) * weight).sum() / weight.sum())
    low, high = (np.array([np.interp(q, levels, row) for row in values]) for q in (0.05, 0.95))
    return Predicted(mean, log_p, crps, low, high)


def ours(**arguments: Any) -> Callable[..., Predicted]:
    """Return VadamRegressor with arguments."""

    def run(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Predicted:
        from vadam.estimators import VadamRegressor

        model = VadamRegressor(random_state=0, **arguments).fit(X, y)
        yield model  # type: ignore[misc]
        target = torch.from_numpy(y_test)[:, None]
        parts = [
            _judged(model, X_test[rows], target[rows])
            for rows in np.array_split(np.arange(len(y_test)), -(-len(y_test) // 500))
        ]
        mean, log_p, low, high = (np.concatenate([part[k] for part in parts]) for k in range(4))
        crps = sum(part[4] * len(part[0]) for part in parts) / len(y_test)
        yield Predicted(mean, log_p, crps, low, high)  # type: ignore[misc]

    return run


def _judged(model: Any, X: np.ndarray, y: torch.Tensor) -> tuple[Any, ...]:
    prediction = model.predict_distribution(X)
    low, high = model.predict_interval(X, 0.9).T
    thin = type(prediction)(prediction.samples[::5], *list(prediction.__dict__.values())[1:3])
    return (
        prediction.mean[:, 0].numpy(),
        prediction.log_prob(y).numpy(),
        low,
        high,
        float(thin.crps(y, torch.Generator().manual_seed(0))),
    )


def gaussian_process(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Iterator[Any]:
    """Fit a Gaussian process with a length scale for each column, or one for all if there are many."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    kernel = ConstantKernel() * RBF(np.ones(X.shape[1] if X.shape[1] <= ARD_COLUMNS else 1), (1e-2, 1e4)) + WhiteKernel(
        0.1, (1e-6, 1e1)
    )
    model = make_pipeline(StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True, random_state=0))
    yield model.fit(X, y)
    yield gaussian(*model.predict(X_test, return_std=True), y_test)


def bayesian_ridge(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Iterator[Any]:
    """Fit a linear regression with tuned prior and noise."""
    from sklearn.linear_model import BayesianRidge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), BayesianRidge())
    yield model.fit(X, y)
    yield gaussian(*model.predict(X_test, return_std=True), y_test)


def ngboost(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Iterator[Any]:
    """Fit NGBoost with a Gaussian and its default of 500 trees."""
    from ngboost import NGBRegressor

    model = NGBRegressor(verbose=False, random_state=0)
    yield model.fit(X, y)
    found = model.pred_dist(X_test).params
    yield gaussian(found["loc"], np.maximum(found["scale"], 1e-6 * y.std()), y_test)


def catboost(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Iterator[Any]:
    """Fit CatBoost that predicts mean and variance, with its default of 1,000 trees."""
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(
        loss_function="RMSEWithUncertainty", verbose=False, random_seed=0, thread_count=1, allow_writing_files=False
    )
    unit = y.std() or 1.0
    yield model.fit(X, (y - y.mean()) / unit)
    mean, variance = model.predict(X_test).T
    yield gaussian(mean * unit + y.mean(), np.sqrt(np.maximum(variance, 1e-10)) * unit, y_test)


def quantile_forest(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Iterator[Any]:
    """Fit a quantile regression forest (Meinshausen 2006)."""
    from quantile_forest import RandomForestQuantileRegressor

    model = RandomForestQuantileRegressor(200, min_samples_leaf=5, random_state=0)
    yield model.fit(X, y)
    values = model.predict(X_test, quantiles=LEVELS.tolist())
    yield quantiles(LEVELS, np.asarray(values), np.asarray(model.predict(X_test, quantiles="mean")), y_test, y.std())


def boosted_quantiles(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Iterator[Any]:
    """Fit gradient boosting for each of 11 quantiles, and for the mean."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    levels = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98])
    models = [HistGradientBoostingRegressor(loss="quantile", quantile=q, random_state=0).fit(X, y) for q in levels]
    mean = HistGradientBoostingRegressor(random_state=0).fit(X, y)
    yield models
    values = np.stack([model.predict(X_test) for model in models], axis=1)
    yield quantiles(levels, values, mean.predict(X_test), y_test, y.std())


MODELS: dict[str, Callable[..., Any]] = {
    "ours": ours(),
    "ours, one posterior": ours(members=1),
    "ours, noise by input": ours(noise="input"),
    "deep ensemble": ours(optimizer="map", noise="input"),
    "mc-dropout": ours(optimizer="mc-dropout", members=1),
    "gaussian process": gaussian_process,
    "ngboost": ngboost,
    "catboost": catboost,
    "quantile forest": quantile_forest,
    "boosted quantiles": boosted_quantiles,
    "bayesian ridge": bayesian_ridge,
}


def load(name: str) -> tuple[np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Return inputs, targets and the folds as pairs of training and test rows."""
    folder = Path(os.environ["VADAM_DATA"])
    if name in GAL:
        found = np.load(folder / "uci" / f"{name}.npz")
        pairs = zip(found["index_train"].astype(int), found["index_test"].astype(int), strict=True)
        return found["X"], found["y"], list(pairs)
    with gzip.open(folder / "uci_large" / name / "data.csv.gz") as file:
        table = np.loadtxt(file, delimiter=",")
    with gzip.open(folder / "uci_large" / name / "test_mask.csv.gz") as file:
        masks = np.loadtxt(file, delimiter=",")
    pairs = [(np.flatnonzero(mask == 0), np.flatnonzero(mask != 0)) for mask in masks.T]
    return table[:, :-1], table[:, -1], pairs


def cell(data: str, fold: int, model: str, rows: int = ROWS) -> dict[str, Any]:
    """Fit one model to at most so many rows of one fold; return its scores."""
    X, y, folds = load(data)
    train, test = folds[fold]
    limit = min(rows, LIMITS.get(model, rows))
    if len(train) > limit:
        train = np.random.default_rng(0).permutation(train)[:limit]
    if len(test) > TEST_ROWS:
        test = np.random.default_rng(0).permutation(test)[:TEST_ROWS]
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stages = MODELS[model](X[train], y[train], X[test], y[test])
        next(stages)
        seconds = time.process_time() - started
        found = next(stages)
    inside = (found.low <= y[test]) & (y[test] <= found.high)
    return {
        "data": data,
        "fold": fold,
        "model": model,
        "rows": len(train),
        "rmse": float(np.sqrt(np.mean((found.mean - y[test]) ** 2))),
        "nll": float(-np.mean(found.log_density)),
        "crps": found.crps,
        "coverage": float(inside.mean()),
        "width": float(np.mean(found.high - found.low)),
        "seconds": seconds,
        "commit": commit(),
    }


def read(path: Path) -> list[dict[str, Any]]:
    """Return the cells that are done."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(options: argparse.Namespace) -> None:
    """Run the cells that are missing, the first folds of all data sets first."""
    done = {(row["data"], row["fold"], row["model"]) for row in read(options.out)}
    names = options.only.split(",") if options.only else [*GAL, *LARGE]
    models = options.models.split(";") if options.models else list(MODELS)
    most = options.first + max(options.folds, options.large_folds)
    todo = [
        (data, fold, model)
        for fold in range(options.first, most)
        for data in names
        for model in models
        if fold < options.first + (options.folds if data in SMALL else options.large_folds)
        and (data, fold, model) not in done
    ]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for k, key in enumerate(todo, start=1):
        try:
            row = cell(*key, rows=options.rows)
        except Exception as error:  # one model that fails must not stop the others; the failure is a row
            row = {"data": key[0], "fold": key[1], "model": key[2], "error": f"{type(error).__name__}: {error}"[:300]}
        with options.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        shown = row.get("error") or f"nll {row['nll']:.3f}, rmse {row['rmse']:.4g}, {row['seconds']:.1f} s"
        print(f"{k}/{len(todo)} {key[0]} fold {key[1]}, {key[2]}: {shown}", flush=True)


def mean_ranks(rows: list[dict[str, Any]], score: str) -> tuple[dict[str, float], int]:
    """Return the mean rank of every model over the data sets that all of them have, and the number of these."""
    table: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if "error" not in row:
            table.setdefault(row["data"], {}).setdefault(row["model"], []).append(row[score])
    models = [model for model in MODELS if any(model in found for found in table.values())]
    whole = {data: found for data, found in table.items() if all(model in found for model in models)}
    ranks = np.array([stats.rankdata([np.mean(found[model]) for model in models]) for found in whole.values()])
    return (dict(zip(models, ranks.mean(0).tolist(), strict=True)) if len(ranks) else {}), len(whole)


def critical_difference(models: int, sets: int) -> float:
    """Return Nemenyi's difference of mean ranks that is significant at 5 % (Demšar 2006)."""
    q = stats.studentized_range.ppf(0.95, models, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(models * (models + 1) / (6 * sets)))


def show(options: argparse.Namespace) -> None:
    """Print the results, and draw the mean ranks."""
    rows = read(options.out)
    for data in [*GAL, *LARGE]:
        part = [row for row in rows if row["data"] == data and "error" not in row]
        if part:
            print(
                f"\n{data}\n{'':24}{'RMSE':>10}{'NLL':>9}{'CRPS':>10}{'coverage':>10}{'width':>10}{'seconds':>9}{'folds':>6}"
            )
        for model in MODELS:
            mine = [row for row in part if row["model"] == model]
            if mine:
                mean = {
                    key: np.mean([row[key] for row in mine])
                    for key in ("rmse", "nll", "crps", "coverage", "width", "seconds")
                }
                print(
                    f"{model:24}{mean['rmse']:>10.4g}{mean['nll']:>9.3f}{mean['crps']:>10.4g}{mean['coverage']:>10.3f}"
                    f"{mean['width']:>10.4g}{mean['seconds']:>9.1f}{len(mine):>6}"
                )
    found = {}
    for score in ("nll", "crps", "rmse"):
        ranks, sets = mean_ranks(rows, score)
        if not ranks:
            continue
        found[score] = ranks
        difference = critical_difference(len(ranks), sets)
        print(f"\nmean rank by {score} over {sets} sets, critical difference {difference:.2f}")
        for model, rank in sorted(ranks.items(), key=lambda item: item[1]):
            print(f"  {model:24}{rank:6.2f}")
    for row in rows:
        if "error" in row:
            print(f"failed: {row['data']} fold {row['fold']}, {row['model']}: {row['error']}")
    if options.page and found:
        draw(found, critical_difference(len(found["nll"]), mean_ranks(rows, "nll")[1]), options.page)


def draw(found: dict[str, dict[str, float]], difference: float, path: Path) -> None:
    """Draw the mean ranks, and how much of a difference is significant."""
    from vadam.plot import theme

    with theme.style():
        figure, panels = theme.panels(len(found), width=4.2, height=3.6)
        for panel, (score, ranks) in zip(panels, found.items(), strict=True):
            ordered = sorted(ranks.items(), key=lambda item: -item[1])
            names, values = zip(*ordered, strict=True)
            colours = [theme.COLOURS["Vadam"] if name.startswith("ours") else theme.INK for name in names]
            panel.scatter(values, range(len(names)), c=colours, s=28)
            best = min(values)
            panel.axvspan(best, best + difference, color=f"{theme.COLOURS['VOGN']}30", linewidth=0)
            panel.set_yticks(range(len(names)), names)
            panel.set(xlabel="mean rank", title=f"{score.upper()}")
        path.write_text(theme.svg(figure, "tabular-ranks"))
    print(f"wrote {path}")


def main() -> None:
    """Run or show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--large-folds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first fold")
    parser.add_argument("--rows", type=int, default=ROWS, help="training rows at most")
    parser.add_argument("--only", default="", help="data sets, separated by commas")
    parser.add_argument("--models", default="", help="names separated by ;")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    show(options) if options.show else run(options)


if __name__ == "__main__":
    main()
