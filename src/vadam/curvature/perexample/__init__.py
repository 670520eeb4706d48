"""Second moments of per-example gradients, mean_i (∇f_i)², from one ordinary backward pass.

reference     the slow, obvious loop that the other modules are tested against
engine        ``PerExampleSquares``: the hooks on the model and the squares that they collect
call          a layer, and one call of it
gradients     per-example gradients of one parameter, and the fastest way to the sum of their squares
layers        the table of modules and rules
closed_forms  rules for Linear, Embedding and normalisations; convolution.py and lstm.py have those layers' rules
replay        run a layer again as explicit linear maps; recurrent.py: GRU, RNN and cells; attention.py: attention
vmapped       the rule for any other module: its vector-Jacobian product, vectorised over the examples
fused         layers that also compute their gradient from the per-example gradients
"""

from vadam.curvature.perexample.engine import PerExampleSquares
from vadam.curvature.perexample.reference import loop

__all__ = ["PerExampleSquares", "loop"]
