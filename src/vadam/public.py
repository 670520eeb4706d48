"""The names that ``import vadam`` offers. They are imported at the first use of one, because torch takes seconds."""

from vadam import curvature, metrics, rules, schedules
from vadam.bound import elbo
from vadam.gaussian import FullGaussian, MeanFieldGaussian, Mixture
from vadam.likelihoods import Bernoulli, Categorical, Gaussian
from vadam.optim import BBVI, IVON, VOGN, VON, FullVON, VadaGrad, Vadam, VariationalOptimizer, Vprop
from vadam.persist import load, save
from vadam.prediction import predict

__all__ = [
    "BBVI",
    "IVON",
    "VOGN",
    "VON",
    "Bernoulli",
    "Categorical",
    "FullGaussian",
    "FullVON",
    "Gaussian",
    "MeanFieldGaussian",
    "Mixture",
    "VadaGrad",
    "Vadam",
    "VariationalOptimizer",
    "Vprop",
    "curvature",
    "elbo",
    "load",
    "metrics",
    "predict",
    "rules",
    "save",
    "schedules",
]
