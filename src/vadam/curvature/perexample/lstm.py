"""LSTM layers: the forward pass once more, and the backward pass in closed form.

For gates a = W_ih x + b_ih + W_hh h₋ + b_hh and (i, f, g, o) = (σ(aᵢ), σ(a_f), tanh(a_g), σ(a_o)):

    c = f∘c₋ + i∘g,  h = o∘tanh(c)

The gradient z at the gates is what per-example gradients need. From the last step to the first, with ∂h and ∂c the
gradients at h and c:

    ∂c ← ∂c + ∂h∘o∘(1 − tanh²(c))
    z = (∂c∘g∘i(1 − i),  ∂c∘c₋∘f(1 − f),  ∂c∘i∘(1 − g²),  ∂h∘tanh(c)∘o(1 − o))
    ∂c ← ∂c∘f,  ∂h ← W_hhᵀ z + the gradient at the output one step earlier

The factors of ∂c and ∂h are computed for all steps at once, which leaves a handful of small operations for each step.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vadam.curvature.perexample.call import Call
from vadam.curvature.perexample.gradients import Explicit, Gradients, Outer
from vadam.curvature.perexample.recurrent import initial_states, recurrent, weights_of
from vadam.curvature.perexample.replay import check_same


@dataclass
class Direction:
    """One direction of one layer over a sequence, all tensors time first: [T, B, ...]."""

    suffix: str
    x: Tensor  # inputs
    h: Tensor  # hidden states, the initial one included: [T + 1, B, H]
    c: Tensor  # cell states, the initial one included
    gates: Tensor  # i, f, g, o after their activation: [T, B, 4, H]
    w_ih: Tensor
    w_hh: Tensor

    def grad_at_gates(self, at_output: Tensor, at_h: Tensor, at_c: Tensor) -> Tensor:
        """Return z [T, B, 4H], given the gradients at the outputs and at the final states."""
        i, f, g, o = self.gates.unbind(2)
        tanh_c = self.c[1:].tanh()
        h_to_c = o * (1 - tanh_c * tanh_c)
        h_to_o = tanh_c * o * (1 - o)
        c_to_ifg = torch.stack([g * i * (1 - i), self.c[:-1] * f * (1 - f), i * (1 - g * g)], 2)
        z = torch.empty_like(self.gates)
        at_h = at_h + at_output[-1]
        for t in reversed(range(len(z))):
            at_c = torch.addcmul(at_c, at_h, h_to_c[t])
            torch.mul(c_to_ifg[t], at_c.unsqueeze(1), out=z[t, :, :3])
            torch.mul(h_to_o[t], at_h, out=z[t, :, 3])
            if t > 0:
                at_c = at_c * f[t]
                at_h = torch.addmm(at_output[t - 1], z[t].flatten(1), self.w_hh)
        return z.flatten(2)


def lstm(call: Call) -> dict[str, Gradients]:
    """Return the per-example gradients of an LSTM. Projections and dropout between layers take the general way."""
    module, x = call.module, call.input
    if module.proj_size or (module.dropout > 0 and module.training):
        return recurrent(call)
    if x.ndim != 3:
        raise call.unbatched(x)
    directions = 2 if module.bidirectional else 1
    x = x.transpose(0, 1) if module.batch_first else x
    initial = initial_states(call, x.shape[1], directions)
    layers: list[list[Direction]] = []
    for number in range(module.num_layers):
        layer = []
        for direction in range(directions):
            suffix = f"l{number}" + "_reverse" * direction
            layer.append(_run(call, suffix, x.flip(0) if direction else x, initial[number * directions + direction]))
        layers.append(layer)
        x = torch.cat([d.h[1:].flip(0) if k else d.h[1:] for k, d in enumerate(layer)], -1)
    final = [torch.stack([states[-1] for layer in layers for states in (getattr(d, s) for d in layer)]) for s in "hc"]
    check_same(call, [x.transpose(0, 1) if module.batch_first else x, *final], call.outputs)

    at_output, at_h, at_c = (torch.zeros_like(y) if g is None else call.cast(g) for y, g in zip([x, *final], _time_first_grads(call), strict=True))
    gradients: dict[str, Gradients] = {}
    for number, layer in reversed(list(enumerate(layers))):
        at_input = None
        for k, (d, at) in enumerate(zip(layer, at_output.chunk(directions, -1), strict=True)):
            z = d.grad_at_gates(at.flip(0) if k else at, at_h[number * directions + k], at_c[number * directions + k])
            gradients |= _gradients(d, z)
            if number > 0:
                at_d = z @ d.w_ih
                at_d = at_d.flip(0) if k else at_d
                at_input = at_d if at_input is None else at_input + at_d
        if number > 0:
            at_output = at_input
    return gradients


def _time_first_grads(call: Call) -> list[Any]:
    at_output, *at_states = call.output_grads
    if at_output is not None and call.module.batch_first:
        at_output = at_output.transpose(0, 1)
    return [at_output, *at_states]


def _run(call: Call, suffix: str, x: Tensor, state: tuple[Tensor, ...]) -> Direction:
    w_ih, b_ih = weights_of(call, f"weight_ih_{suffix}", f"bias_ih_{suffix}")
    w_hh, b_hh = weights_of(call, f"weight_hh_{suffix}", f"bias_hh_{suffix}")
    size = w_hh.shape[1]
    gates = F.linear(x, w_ih, None if b_ih is None else b_ih + b_hh)
    h, c = (s.new_empty(len(x) + 1, *s.shape) for s in state)
    h[0], c[0] = state
    w_t = w_hh.t()
    for t, a in enumerate(gates):
        a.addmm_(h[t], w_t)
        a[:, : 2 * size].sigmoid_()
        a[:, 2 * size : 3 * size].tanh_()
        a[:, 3 * size :].sigmoid_()
        i, f, g, o = a.chunk(4, -1)
        torch.mul(f, c[t], out=c[t + 1]).addcmul_(i, g)
        torch.tanh(c[t + 1], out=h[t + 1]).mul_(o)
    return Direction(suffix, x, h, c, gates.unflatten(2, (4, size)), w_ih, w_hh)


def _gradients(d: Direction, z: Tensor) -> dict[str, Gradients]:
    z = z.transpose(0, 1)
    bias = Explicit(z)
    return {
        f"weight_ih_{d.suffix}": Outer(z, d.x.transpose(0, 1)),
        f"weight_hh_{d.suffix}": Outer(z, d.h[:-1].transpose(0, 1)),
        f"bias_ih_{d.suffix}": bias,
        f"bias_hh_{d.suffix}": bias,
    }
