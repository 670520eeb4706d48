"""Optimizers: the rules of ``vadam.rules`` behind ``torch.optim.Optimizer``. Written by tests/generated.py."""

from vadam.optim.base import VariationalOptimizer
from vadam.optim.bbvi import BBVI
from vadam.optim.evon import EVON
from vadam.optim.full_von import FullVON
from vadam.optim.ivon import IVON
from vadam.optim.vadagrad import VadaGrad
from vadam.optim.vadam import Vadam
from vadam.optim.vadam_ggn import VadamGGN
from vadam.optim.vogn import VOGN
from vadam.optim.von import VON
from vadam.optim.vprop import Vprop

__all__ = [
    "BBVI",
    "EVON",
    "IVON",
    "VOGN",
    "VON",
    "FullVON",
    "VadaGrad",
    "Vadam",
    "VadamGGN",
    "VariationalOptimizer",
    "Vprop",
]
