"""The public names of ``import vadam``; they are imported at their first use, because importing torch takes seconds."""

from vadam import calibration, curvature, metrics, optim, rules, schedules
from vadam.bound import elbo
from vadam.forward import Draws
from vadam.gaussian import FullGaussian, MeanFieldGaussian, Mixture, RotatedGaussian
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
from vadam.optim import *  # noqa: F403
from vadam.persist import load, save
from vadam.prediction import predict
from vadam.recipe import from_adam

__all__ = [
    "Bernoulli",
    "Categorical",
    "Draws",
    "FullGaussian",
    "Gaussian",
    "InputNoiseGaussian",
    "InputNoiseStudentT",
    "MeanFieldGaussian",
    "Mixture",
    "NegativeBinomial",
    "Poisson",
    "RotatedGaussian",
    "StudentT",
    "calibration",
    "curvature",
    "elbo",
    "from_adam",
    "load",
    "metrics",
    "predict",
    "rules",
    "save",
    "schedules",
]
__all__ += optim.__all__
