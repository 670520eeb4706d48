"""The public names of ``import vadam``; they are imported at their first use, because importing torch takes seconds."""

from vadam import calibration, curvature, metrics, rules, schedules
from vadam.bound import elbo
from vadam.forward import Draws
from vadam.gaussian import FullGaussian, MeanFieldGaussian, Mixture
from vadam.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    InputNoiseGaussian,
    InputNoiseStudentT,
    NegativeBinomial,
    Poisson,
    StudentT,
)
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
    "Draws",
    "FullGaussian",
    "FullVON",
    "Gaussian",
    "InputNoiseGaussian",
    "InputNoiseStudentT",
    "MeanFieldGaussian",
    "Mixture",
    "NegativeBinomial",
    "Poisson",
    "StudentT",
    "VadaGrad",
    "Vadam",
    "VariationalOptimizer",
    "Vprop",
    "calibration",
    "curvature",
    "elbo",
    "load",
    "metrics",
    "predict",
    "rules",
    "save",
    "schedules",
]
