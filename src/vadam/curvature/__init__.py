"""Curvature estimates ĥ: the main difference between the algorithms.

| ĥ | function | used by |
|---|---|---|
| ĝ∘ĝ | ``magnitude`` | Vprop, Vadam, VadaGrad |
| mean_i (∇f_i)² | ``PerExampleSquares`` | VOGN |
| diag ∇²f | ``hessian_diagonal``, ``hutchinson`` | VON |
| ∇²f | ``hessian`` | FullVON |
| ĝ∘ε/σ | ``reparameterised`` | VON, IVON, BBVI |
| F (ε² − 1)/σ² | ``score_curvature`` | VON on objectives with no gradient |

``gm_bias`` and ``expected_magnitude`` implement Theorem 1: the bias of ĝ∘ĝ as an estimate of mean_i (∇f_i)².
"""

from vadam.curvature.gaussian_estimates import reparameterised, score_curvature, score_gradient
from vadam.curvature.gradient_magnitude import expected_magnitude, gm_bias, magnitude
from vadam.curvature.perexample import PerExampleSquares
from vadam.curvature.second_order import hessian, hessian_diagonal, hutchinson

__all__ = [
    "PerExampleSquares",
    "expected_magnitude",
    "gm_bias",
    "hessian",
    "hessian_diagonal",
    "hutchinson",
    "magnitude",
    "reparameterised",
    "score_curvature",
    "score_gradient",
]
