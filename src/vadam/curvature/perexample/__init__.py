"""Second moments of per-example gradients, mean_i (∇f_i)², from one ordinary backward pass.

reference     the slow, obvious loop that the rest is compared with
engine        ``PerExampleSquares``: the hooks on the model, and what they collect
call          a layer, and one call of it
gradients     per-example gradients of one parameter, and the shortest way to their squares
layers        which module owns which parameters, and the rule for it
closed_forms  Linear, Embedding and normalisations, from input and output gradient; convolution: convolutions; lstm: LSTMs
replay        run a layer once more, written out in linear maps; recurrent: GRU, RNN and cells; attention: attention
vmapped       any other module, by its vector-Jacobian product vectorised over the examples
fused         layers that take their gradient, too, from the per-example gradients
"""

from vadam.curvature.perexample.engine import PerExampleSquares
from vadam.curvature.perexample.reference import loop

__all__ = ["PerExampleSquares", "loop"]
