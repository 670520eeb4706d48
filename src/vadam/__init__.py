"""Bayesian deep learning at the price of Adam: change the optimizer, keep the network, get a posterior over the weights."""

from vadam import curvature, metrics, rules, schedules
from vadam.elbo import elbo
from vadam.gaussian import FullGaussian, MeanFieldGaussian, Mixture
from vadam.likelihoods import Bernoulli, Categorical, Gaussian
from vadam.optim import BBVI, IVON, VOGN, VON, FullVON, VadaGrad, Vadam, VariationalOptimizer, Vprop
from vadam.persist import load, save
from vadam.predict import predict

__version__ = "0.1.0"

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
