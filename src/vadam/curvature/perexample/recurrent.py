"""Replay recurrent layers as linear maps: one of the inputs, one of the hidden state, and a step that joins them.

Autograd differentiates the replay. LSTMs without dropout and projections have a faster rule, in lstm.py.

    LSTM    i, f, g, o = x̃ + h̃;            c ← σ(f)∘c + σ(i)∘tanh(g);  h ← σ(o)∘tanh(c)
    GRU     r, z = σ of x̃ + h̃;  n = tanh(x̃_n + r∘h̃_n);                 h ← (1 − z)∘n + z∘h
    RNN                                                               h ← tanh(x̃ + h̃)

with x̃ = W_ih x + b_ih and h̃ = W_hh h + b_hh.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vadam.curvature.perexample.call import Call
from vadam.curvature.perexample.gradients import Gradients
from vadam.curvature.perexample.replay import LinearMaps, restored

State = tuple[Tensor, ...]


def lstm_step(x: Tensor, h: Tensor, state: State) -> State:
    """Return the next hidden and cell state of an LSTM."""
    i, f, g, o = (x + h).chunk(4, -1)
    c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru_step(x: Tensor, h: Tensor, state: State) -> State:
    """Return the next hidden state of a GRU."""
    r, z = (x + h).chunk(3, -1)[:2]
    n = (x.chunk(3, -1)[2] + r.sigmoid() * h.chunk(3, -1)[2]).tanh()
    return ((1 - z.sigmoid()) * n + z.sigmoid() * state[0],)


def tanh_step(x: Tensor, h: Tensor, state: State) -> State:
    """Return the next hidden state of an RNN with tanh."""
    return ((x + h).tanh(),)


def relu_step(x: Tensor, h: Tensor, state: State) -> State:
    """Return the next hidden state of an RNN with ReLU."""
    return ((x + h).relu(),)


STEPS = {"LSTM": lstm_step, "GRU": gru_step, "RNN_TANH": tanh_step, "RNN_RELU": relu_step}


def recurrent(call: Call) -> dict[str, Gradients]:
    """Return the per-example gradients of an LSTM, GRU or RNN with any number of layers, by replaying it."""
    module, x = call.module, call.input
    if x.ndim != 3:
        raise call.unbatched(x)
    x = x if module.batch_first else x.transpose(0, 1)
    directions = 2 if module.bidirectional else 1
    initial = initial_states(call, len(x), directions)
    final: list[State] = []
    maps = LinearMaps()
    with torch.enable_grad(), restored(call.random_state):
        for layer in range(module.num_layers):
            outputs = []
            for direction in range(directions):
                suffix = f"l{layer}" + "_reverse" * direction
                steps, state = _run(
                    call, maps, suffix, x.flip(1) if direction else x, initial[layer * directions + direction]
                )
                outputs.append(steps.flip(1) if direction else steps)
                final.append(state)
            x = torch.cat(outputs, -1)
            if layer < module.num_layers - 1 and module.dropout > 0:
                x = _dropped_out(x, module)
        states = [torch.stack(s) for s in zip(*final, strict=True)]
        weights, biases = maps.gradients(call, [x if module.batch_first else x.transpose(0, 1), *states])
    return _named(weights, "weight") | _named(biases, "bias")


def recurrent_cell(call: Call) -> dict[str, Gradients]:
    """Return the per-example gradients of an LSTMCell, GRUCell or RNNCell by replaying one step."""
    module, x = call.module, call.input
    if x.ndim != 2:
        raise call.unbatched(x)
    given = call.args[1] if len(call.args) > 1 else call.kwargs.get("hx")
    mode = type(module).__name__.removesuffix("Cell")
    mode = f"RNN_{module.nonlinearity.upper()}" if mode == "RNN" else mode
    state = _as_states(given) or (x.new_zeros(len(x), module.hidden_size),) * (1 + (mode == "LSTM"))
    state = tuple(call.cast(s) for s in state)
    maps = LinearMaps()
    with torch.enable_grad():
        x_tilde = maps("ih", x, *weights_of(call, "weight_ih", "bias_ih"))
        h_tilde = maps("hh", state[0], *weights_of(call, "weight_hh", "bias_hh"))
        weights, biases = maps.gradients(call, STEPS[mode](x_tilde, h_tilde, state))
    return _named(weights, "weight") | _named(biases, "bias")


def _run(call: Call, maps: LinearMaps, suffix: str, x: Tensor, state: State) -> tuple[Tensor, State]:
    """Run one direction of one layer over a sequence [B, T, I]. Return its outputs and its final state."""
    step = STEPS[call.module.mode]
    x_tilde = maps(f"ih_{suffix}", x, *weights_of(call, f"weight_ih_{suffix}", f"bias_ih_{suffix}"))
    hidden = weights_of(call, f"weight_hh_{suffix}", f"bias_hh_{suffix}")
    projection, _ = weights_of(call, f"weight_hr_{suffix}", "")
    outputs = []
    for x_t in x_tilde.unbind(1):
        h, *rest = step(x_t, maps(f"hh_{suffix}", state[0], *hidden), state)
        if projection is not None:
            h = maps(f"hr_{suffix}", h, projection, None)
        state = (h, *rest)
        outputs.append(h)
    return torch.stack(outputs, 1), state


def initial_states(call: Call, examples: int, directions: int) -> list[State]:
    """Return one state for each layer and direction: the given ones, or zeros."""
    module = call.module
    given = _as_states(call.args[1] if len(call.args) > 1 else call.kwargs.get("hx"))
    if given:
        return list(zip(*(call.cast(s).unbind(0) for s in given), strict=True))
    sizes = [getattr(module, "proj_size", 0) or module.hidden_size, module.hidden_size][: 1 + (module.mode == "LSTM")]
    return [tuple(call.input.new_zeros(examples, size) for size in sizes)] * (module.num_layers * directions)


def _as_states(hx: Any) -> State:
    return () if hx is None else hx if isinstance(hx, tuple) else (hx,)


def _dropped_out(x: Tensor, module: Any) -> Tensor:
    """Apply dropout as the layer draws it, on the sequence with time first."""
    return F.dropout(x.transpose(0, 1).contiguous(), module.dropout, module.training).transpose(0, 1)


def weights_of(call: Call, weight: str, bias: str) -> tuple[Any, Any]:
    """Return a weight and a bias of the module, detached; None for one that it does not have."""
    params = [getattr(call.module, name, None) for name in (weight, bias)]
    return tuple(None if p is None else p.detach().to(call.dtype) for p in params)  # type: ignore[return-value]


def _named(gradients: dict[str, Gradients], kind: str) -> dict[str, Gradients]:
    return {f"{kind}_{key}": g for key, g in gradients.items()}
