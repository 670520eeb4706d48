"""LSTM layers: run the forward pass again, and the backward pass in closed form.

With gates a = W_ih x + b_ih + W_hh h₋ + b_hh and (i, f, g, o) = (σ(a_i), σ(a_f), tanh(a_g), σ(a_o)):

    c = f∘c₋ + i∘g,  h = o∘tanh(c)

Per-example gradients need the gradient z at the gates. From the last step to the first, with ∂h and ∂c the gradients at
h and c:

    ∂c ← ∂c + ∂h∘o∘(1 − tanh²(c))
    z = (∂c∘g∘i(1 − i),  ∂c∘c₋∘f(1 − f),  ∂c∘i∘(1 − g²),  ∂h∘tanh(c)∘o(1 − o))
    ∂c ← ∂c∘f,  ∂h ← zᵀ W_hh + the gradient at the output one step earlier

The factors of ∂c and ∂h are computed for all steps at once, so that few small operations are left for each step.
Tensors have time first, [T, B, ...], which makes every step contiguous.
"""

from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vadam.curvature.perexample.call import Call
from vadam.curvature.perexample.gradients import Added, Gradients, Outer
from vadam.curvature.perexample.recurrent import State, initial_states, recurrent, weights_of
from vadam.curvature.perexample.replay import check_same

through_sigmoid = torch.ops.aten.sigmoid_backward  # (z, y) → z∘y∘(1 − y), in one pass over the memory
through_tanh = torch.ops.aten.tanh_backward  # (z, y) → z∘(1 − y²)


@dataclass
class Direction:
    """One direction of one layer after its forward pass."""

    suffix: str
    x: Tensor  # inputs [T, B, I]
    h: Tensor  # hidden states, the initial one first: [T + 1, B, H]
    c: Tensor  # cell states, the initial one first
    gates: Tensor  # i, f, g, o: [T, B, 4, H]
    w_ih: Tensor
    w_hh: Tensor

    def grads_at_gates(self, at_output: Tensor, at_h: Tensor, at_c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return z [T, B, 4H] and the gradients at the initial states, given those at the outputs and final states."""
        i, f, g, o = self.gates.unbind(2)
        tanh_c = self.c[1:].tanh()
        h_to_c = through_tanh(o, tanh_c)
        at_c_to_a = [through_sigmoid(g, i), through_sigmoid(self.c[:-1], f), through_tanh(i, g)]
        z = torch.stack([*at_c_to_a, through_sigmoid(tanh_c, o)], 2)
        earlier = (torch.zeros_like(at_h), *at_output.unbind(0))
        at_h = at_h + earlier[-1]
        for t, z_t in reversed(list(enumerate(z.unbind(0)))):
            at_c = torch.addcmul(at_c, at_h, h_to_c[t])
            z_t[:, :3].mul_(at_c.unsqueeze(1))
            z_t[:, 3].mul_(at_h)
            at_c = at_c * f[t]
            at_h = torch.addmm(earlier[t], z_t.flatten(1), self.w_hh)
        return z.flatten(2), at_h, at_c

    def gradients(self, z: Tensor) -> dict[str, Gradients]:
        """Return the per-example gradients of the weights and biases, given the gradients z at the gates."""
        suffix = self.suffix
        # Products of matrices with the examples interleaved would take twice as long as the copies and the products.
        z, x, h = (v.transpose(0, 1).contiguous() for v in (z, self.x, self.h[:-1]))
        weights, bias = {"ih": Outer(z, x), "hh": Outer(z, h)}, Added(z)
        return {
            f"{kind}_{key}_{suffix}": g for key, w in weights.items() for kind, g in (("weight", w), ("bias", bias))
        }


def has_closed_form(module: Any) -> bool:
    """Return True for an LSTM without projections and without dropout between its layers."""
    return not module.proj_size and not (module.dropout > 0 and module.training)


def lstm(call: Call) -> dict[str, Gradients]:
    """Return the per-example gradients of an LSTM, and store the gradients at its inputs in the call."""
    module, x = call.module, call.input
    if not has_closed_form(module):
        return recurrent(call)
    if x.ndim != 3:
        raise call.unbatched(x)
    directions = 2 if module.bidirectional else 1
    runs = replay_forward(call, x.transpose(0, 1) if module.batch_first else x, directions)
    output = _joined([run.h[1:] for run in runs[-directions:]])
    final = [torch.stack([states[-1] for states in kind]) for kind in zip(*((r.h, r.c) for r in runs), strict=True)]
    check_same(call, [output.transpose(0, 1) if module.batch_first else output, *final], call.outputs)

    arrived = [None if grad is None else call.cast(grad) for grad in call.output_grads]
    if module.batch_first and arrived[0] is not None:
        arrived[0] = arrived[0].transpose(0, 1)
    outputs = [output, *final]
    at_output, at_h, at_c = (torch.zeros_like(y) if g is None else g for y, g in zip(outputs, arrived, strict=True))
    gradients: dict[str, Gradients] = {}
    at_initial = []
    for first in reversed(range(0, len(runs), directions)):
        at_input = []
        for k, at in enumerate(at_output.chunk(directions, -1)):
            run = runs[first + k]
            z, *at_states = run.grads_at_gates(_flip_if(k, at), at_h[first + k], at_c[first + k])
            gradients |= run.gradients(z)
            at_initial.append(at_states)
            if first > 0 or call.needs_input_grad:
                at_input.append(_flip_if(k, z @ run.w_ih))
        if at_input:
            at_output = reduce(torch.add, at_input)
    call.input_grads = _input_grads(call, at_output if call.needs_input_grad else None, at_initial)
    return gradients


def native(module: Any, x: Tensor, h: Tensor | None, c: Tensor | None, *weights: Tensor) -> list[Tensor]:
    """Run the layer itself on the given input, states and weights, ready for a backward pass."""
    if h is None or c is None:
        examples = x.shape[0 if module.batch_first else 1]
        h = c = x.new_zeros(module.num_layers * (2 if module.bidirectional else 1), examples, module.hidden_size)
    settings = (module.bias, module.num_layers, 0.0, True, module.bidirectional, module.batch_first)
    return list(torch._VF.lstm(x, (h, c), weights, *settings))


def replay_forward(call: Call, x: Tensor, directions: int) -> list[Direction]:
    """Run all layers; take the hidden states of the last layer from the recorded output where it is intact."""
    runs: list[Direction] = []
    initial = initial_states(call, x.shape[1], directions)
    output = call.outputs[0].transpose(0, 1) if call.module.batch_first else call.outputs[0]
    is_usable = call.is_intact(0) and output.dtype == call.dtype
    for first in range(0, len(initial), directions):
        states = initial[first : first + directions]
        suffixes = [f"l{first // directions}" + "_reverse" * k for k in range(directions)]
        is_known = is_usable and first + directions == len(initial)
        h = output if is_known else _hidden_states(call, suffixes, x, states)
        for k, (suffix, state, own) in enumerate(zip(suffixes, states, h.chunk(directions, -1), strict=True)):
            runs.append(_run(call, suffix, _flip_if(k, x), state, _flip_if(k, own)))
        x = h
    return runs


def _hidden_states(call: Call, suffixes: list[str], x: Tensor, states: list[State]) -> Tensor:
    """Return the hidden states of all directions of one layer, [T, B, directions · H], by torch's own layer."""
    module, flat = call.module, []
    for suffix in suffixes:
        (w_ih, b_ih), (w_hh, b_hh) = _weights(call, suffix)
        flat += [w_ih, w_hh, b_ih, b_hh] if module.bias else [w_ih, w_hh]
    initial = [torch.stack(kind) for kind in zip(*states, strict=True)]
    return torch._VF.lstm(x, initial, flat, module.bias, 1, 0.0, False, module.bidirectional, False)[0]


def _run(call: Call, suffix: str, x: Tensor, state: State, h: Tensor) -> Direction:
    """Return one direction of one layer, whose hidden states give all gates at once."""
    (w_ih, b_ih), (w_hh, b_hh) = _weights(call, suffix)
    h = torch.cat((state[0].unsqueeze(0), h))
    gates = F.linear(x, w_ih, None if b_ih is None else b_ih + b_hh)
    _activate(gates.flatten(0, 1).addmm_(h[:-1].flatten(0, 1), w_hh.t()), w_hh.shape[1])
    gates = gates.unflatten(2, (4, -1))
    i, f, g, _ = gates.unbind(2)
    c = state[1].new_empty(len(x) + 1, *state[1].shape)
    c[0] = state[1]
    torch.mul(i, g, out=c[1:])
    cs = c.unbind(0)
    for t, f_t in enumerate(f.unbind(0)):
        cs[t + 1].addcmul_(f_t, cs[t])
    return Direction(suffix, x, h, c, gates, w_ih, w_hh)


def _weights(call: Call, suffix: str) -> list[tuple[Any, Any]]:
    """Return weight and bias of the inputs and of the hidden states of one direction; None for a bias that it does not have."""
    return [weights_of(call, f"weight_{key}_{suffix}", f"bias_{key}_{suffix}") for key in ("ih", "hh")]


def _activate(gates: Tensor, size: int) -> None:
    gates[:, : 2 * size].sigmoid_()
    gates[:, 2 * size : 3 * size].tanh_()
    gates[:, 3 * size :].sigmoid_()


def _flip_if(backwards: int, x: Tensor) -> Tensor:
    return x.flip(0) if backwards else x


def _joined(outputs: list[Tensor]) -> Tensor:
    """Concatenate the directions of one layer; the second one ran backwards."""
    return outputs[0] if len(outputs) == 1 else torch.cat([outputs[0], outputs[1].flip(0)], -1)


def _input_grads(call: Call, at_input: Tensor | None, at_initial: list[Any]) -> list[Tensor | None]:
    """Return the gradients at the input and at the initial states, if the caller gave any."""
    if at_input is not None and call.module.batch_first:
        at_input = at_input.transpose(0, 1)
    if len(call.args) < 2 or call.args[1] is None:
        return [at_input, None, None]
    directions = 2 if call.module.bidirectional else 1
    layers = [at_initial[k : k + directions] for k in range(0, len(at_initial), directions)]
    in_order = [pair for layer in reversed(layers) for pair in layer]  # the backward pass started at the last layer
    return [at_input, *(torch.stack(grads) for grads in zip(*in_order, strict=True))]
