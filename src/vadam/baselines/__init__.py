"""Baselines to compare with: MAP, deep ensembles, MC-Dropout, and Laplace approximations.

Each has ``fit(model, X, y, likelihood, ...)``, its hyper-parameters in the constructor, and the trained network in
``model``. Each is a posterior for ``vadam.predict(baseline.model, baseline, x, likelihood=likelihood)``.
"""

from vadam.baselines.deep_ensemble import DeepEnsemble
from vadam.baselines.laplace import DiagonalLaplace, LastLayerLaplace
from vadam.baselines.map import MAP
from vadam.baselines.mc_dropout import MCDropout

__all__ = ["MAP", "DeepEnsemble", "DiagonalLaplace", "LastLayerLaplace", "MCDropout"]
