"""The equations: one file per algorithm, each with ``ARGUMENTS``, ``rule_args``, ``State``, ``init``, ``precision`` and ``update``.

A rule is pure and elementwise (FullVON and EVON aside): no random numbers, no autograd, no parameter groups. Its arguments are tensors or
numbers that broadcast against the mean, so the same function serves one tensor, a float64 test, and a stack ``[E, ...]`` of E
networks whose rates, prior precisions and data sizes have shape ``[E, 1, ...]``.

The symbols are the paper's: ``mu`` the mean, ``g`` the minibatch gradient ĝ of the mean negative log-likelihood at a sample of the
weights, ``h`` the curvature ĥ, ``N`` the number of data, ``lam`` the prior precision λ (λ̃ = λ/N), ``tau`` the knob between inference
(1) and optimisation (0). ``precision`` is that of the posterior q, the inverse of σ².
"""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING

RULES: dict[str, ModuleType] = {
    name: module
    for name, module in ((info.name, import_module(f"{__name__}.{info.name}")) for info in iter_modules(__path__))
    if hasattr(module, "update")
}
"""The rules by name: every module of this package with an ``update``."""

if TYPE_CHECKING:

    def __getattr__(name: str) -> ModuleType: ...
