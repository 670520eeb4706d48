"""Second moments of per-example gradients, mean_i (∇f_i)², from one ordinary backward pass.

reference     the slow obvious loop that the rest is compared with
engine        ``PerExampleSquares``: the hooks, and what they collect
gradients     per-example gradients of one parameter, and the shortest way to their squares
layers        which module owns what, and the rule for it
closed_forms  Linear, Embedding, normalisations, and in convolution.py the convolutions: from input and output gradient
replay        recurrent.py, attention.py: the layer written out in linear maps, run once more
vmapped       any other module: its pull-back, vectorised over the examples
"""

from vadam.curvature.perexample.engine import PerExampleSquares
from vadam.curvature.perexample.reference import loop

__all__ = ["PerExampleSquares", "loop"]
