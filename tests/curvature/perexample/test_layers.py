"""Every layer in every setting equals the loop over examples, to rounding in float64."""

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

from curvature.perexample.oracle import assert_equals_loop
from vadam.curvature.perexample import closed_forms, gradients, layers

B = 4


class Time(nn.Module):
    """A model that lays its input out as [T, B, ...] inside, and back again."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        output = self.inner(x.transpose(0, 1))
        return (output[0] if isinstance(output, tuple) else output).transpose(0, 1)


class Call(nn.Module):
    """A layer, and how it is called."""

    def __init__(self, layer, how):
        super().__init__()
        self.layer, self.how = layer, how

    def forward(self, x):
        return self.how(self.layer, x)


def states(layer, x):
    """All outputs of a recurrent layer, with an initial state that is not zero."""
    size = getattr(layer, "proj_size", 0) or layer.hidden_size
    layers = layer.num_layers * (2 if layer.bidirectional else 1)
    h = x.sum((1, 2)).view(1, -1, 1).expand(layers, -1, size).contiguous() / 5
    c = x.sum((1, 2)).view(1, -1, 1).expand(layers, -1, layer.hidden_size).contiguous() / 5
    output, final = layer(x, (h, c) if isinstance(layer, nn.LSTM) else h)
    final = final if isinstance(final, tuple) else (final,)
    return torch.cat([output.flatten(1), *(s.transpose(0, 1).flatten(1) for s in final)], 1)


def cell_states(cell, x):
    state = None
    for x_t in x.unbind(1):
        state = cell(x_t, state)
    return torch.cat(state, 1) if isinstance(state, tuple) else state


def cross_attention(layer, x):
    mask = (x[:, :5, 0] > 0.5) & (torch.arange(5) > 0)
    output, weights = layer(x, x[:, :5] * 2, value=x[:, :5].sin(), key_padding_mask=mask)
    return torch.cat([output.flatten(1), weights.flatten(1)], 1)


def self_attention(layer, x):
    mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=x.dtype)
    return layer(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)[0]


def indices(*shape, high=6):
    return lambda: torch.randint(0, high, shape)


def real(*shape):
    return lambda: torch.randn(*shape)


TABLE = {
    "linear": (lambda: nn.Linear(3, 5), real(B, 3)),
    "linear, no bias": (lambda: nn.Linear(3, 5, bias=False), real(B, 3)),
    "linear, one position": (lambda: nn.Linear(3, 5), real(B, 1, 3)),
    "linear, few positions": (lambda: nn.Linear(3, 5), real(B, 3, 3)),
    "linear, many positions": (lambda: nn.Linear(3, 5), real(B, 9, 3)),
    "linear, image": (lambda: nn.Linear(3, 5), real(B, 4, 6, 3)),
    "linear, time first": (lambda: Time(nn.Linear(3, 5)), real(B, 9, 3), {"sequence_first": True}),
    "conv1d": (lambda: nn.Conv1d(2, 3, 3), real(B, 2, 8)),
    "conv1d, no bias": (lambda: nn.Conv1d(2, 3, 3, bias=False), real(B, 2, 8)),
    "conv1d, circular": (lambda: nn.Conv1d(2, 3, 3, padding=2, padding_mode="circular"), real(B, 2, 8)),
    "conv1d, one position": (lambda: nn.Conv1d(2, 3, 4), real(B, 2, 4)),
    "conv2d": (lambda: nn.Conv2d(2, 3, 3), real(B, 2, 6, 7)),
    "conv2d, stride padding dilation": (lambda: nn.Conv2d(2, 3, (3, 2), (2, 1), (1, 2), (1, 2)), real(B, 2, 7, 6)),
    "conv2d, groups": (lambda: nn.Conv2d(4, 6, 3, groups=2, padding=1), real(B, 4, 5, 5)),
    "conv2d, depthwise": (lambda: nn.Conv2d(4, 8, 3, groups=4), real(B, 4, 5, 5)),
    "conv2d, 1x1": (lambda: nn.Conv2d(4, 3, 1), real(B, 4, 5, 5)),
    "conv2d, uneven same": (lambda: nn.Conv2d(2, 3, (4, 2), padding="same"), real(B, 2, 6, 6)),
    "conv2d, valid": (lambda: nn.Conv2d(2, 3, 3, padding="valid"), real(B, 2, 6, 6)),
    "conv2d, reflect": (lambda: nn.Conv2d(2, 3, 3, padding=(2, 1), padding_mode="reflect"), real(B, 2, 6, 6)),
    "conv2d, replicate same": (lambda: nn.Conv2d(2, 3, 4, padding="same", padding_mode="replicate"), real(B, 2, 6, 6)),
    "conv2d, unused border": (lambda: nn.Conv2d(2, 3, 3, stride=3), real(B, 2, 8, 11)),
    "conv2d, one position": (lambda: nn.Conv2d(2, 3, (3, 4)), real(B, 2, 3, 4)),
    "conv2d, few positions": (lambda: nn.Conv2d(2, 3, 3, (1, 2), (1, 0), (2, 1)), real(B, 2, 4, 4)),
    "conv2d, few positions, groups": (lambda: nn.Conv2d(2, 4, 3, groups=2), real(B, 2, 3, 4)),
    "conv2d, channels last": (
        lambda: nn.Conv2d(2, 3, 3),
        lambda: torch.randn(B, 2, 6, 6).to(memory_format=torch.channels_last),
    ),
    "conv3d": (lambda: nn.Conv3d(2, 3, 2, stride=(1, 2, 1), padding=(0, 1, 1)), real(B, 2, 3, 4, 5)),
    "conv3d, groups": (lambda: nn.Conv3d(2, 4, 2, groups=2), real(B, 2, 3, 4, 3)),
    "transposed conv1d": (lambda: nn.ConvTranspose1d(2, 3, 3, stride=2, padding=1, output_padding=1), real(B, 2, 5)),
    "transposed conv2d": (lambda: nn.ConvTranspose2d(4, 6, 3, 2, (0, 1), dilation=(1, 2), groups=2), real(B, 4, 4, 3)),
    "transposed conv3d": (lambda: nn.ConvTranspose3d(2, 2, 2), real(B, 2, 2, 3, 2)),
    "embedding": (lambda: nn.Embedding(6, 3), indices(B)),
    "embedding, sequence": (lambda: nn.Embedding(6, 3), indices(B, 9)),
    "embedding, two axes": (lambda: nn.Embedding(6, 3), indices(B, 3, 4)),
    "embedding, padding": (lambda: nn.Embedding(6, 3, padding_idx=2), indices(B, 9)),
    "embedding, sparse": (lambda: nn.Embedding(6, 3, sparse=True), indices(B, 9)),
    "embedding, time first": (lambda: Time(nn.Embedding(6, 3)), indices(B, 9), {"sequence_first": True}),
    "layer norm": (lambda: nn.LayerNorm(5), real(B, 5)),
    "layer norm, sequence": (lambda: nn.LayerNorm(5), real(B, 7, 5)),
    "layer norm, two axes": (lambda: nn.LayerNorm((3, 5)), real(B, 4, 3, 5)),
    "layer norm, no bias": (lambda: nn.LayerNorm(5, bias=False), real(B, 7, 5)),
    "layer norm, time first": (lambda: Time(nn.LayerNorm(5)), real(B, 7, 5), {"sequence_first": True}),
    "rms norm": (lambda: nn.RMSNorm(5), real(B, 7, 5)),
    "group norm": (lambda: nn.GroupNorm(2, 6), real(B, 6)),
    "group norm, image": (lambda: nn.GroupNorm(3, 6), real(B, 6, 4, 3)),
    "instance norm": (lambda: nn.InstanceNorm2d(3, affine=True), real(B, 3, 4, 5)),
    "instance norm, running": (
        lambda: nn.InstanceNorm1d(3, affine=True, track_running_stats=True).eval(),
        real(B, 3, 4),
    ),
    "instance norm, training": (
        lambda: nn.InstanceNorm1d(3, affine=True, track_running_stats=True),
        real(B, 3, 4),
    ),
    "batch norm, eval": (lambda: nn.BatchNorm2d(3).eval(), real(B, 3, 4, 5)),
    "lstm": (lambda: Call(nn.LSTM(3, 4, batch_first=True), states), real(B, 5, 3)),
    "lstm, deep": (
        lambda: Call(nn.LSTM(3, 4, num_layers=3, bidirectional=True, batch_first=True), states),
        real(B, 5, 3),
    ),
    "lstm, projection": (lambda: Call(nn.LSTM(3, 4, 2, proj_size=2, batch_first=True), states), real(B, 5, 3)),
    "lstm, no bias": (lambda: Call(nn.LSTM(3, 4, bias=False, batch_first=True), states), real(B, 5, 3)),
    "lstm, time first": (lambda: Time(nn.LSTM(3, 4, 2)), real(B, 5, 3)),
    "gru": (lambda: Call(nn.GRU(3, 4, 2, bidirectional=True, batch_first=True), states), real(B, 5, 3)),
    "gru, time first": (lambda: Time(nn.GRU(3, 4, 2, bias=False)), real(B, 5, 3)),
    "rnn": (lambda: Call(nn.RNN(3, 4, 2, batch_first=True), states), real(B, 5, 3)),
    "rnn, relu": (lambda: Call(nn.RNN(3, 4, 2, nonlinearity="relu", batch_first=True), states), real(B, 5, 3)),
    "lstm cell": (lambda: Call(nn.LSTMCell(3, 4), cell_states), real(B, 5, 3)),
    "gru cell": (lambda: Call(nn.GRUCell(3, 4, bias=False), cell_states), real(B, 5, 3)),
    "rnn cell": (lambda: Call(nn.RNNCell(3, 4, nonlinearity="relu"), cell_states), real(B, 5, 3)),
    "attention": (lambda: Call(nn.MultiheadAttention(6, 2, batch_first=True), self_attention), real(B, 7, 6)),
    "attention, no bias": (
        lambda: Call(nn.MultiheadAttention(6, 2, bias=False, batch_first=True), self_attention),
        real(B, 7, 6),
    ),
    "attention, cross": (lambda: Call(nn.MultiheadAttention(6, 3, batch_first=True), cross_attention), real(B, 7, 6)),
    "attention, other sizes": (
        lambda: Call(
            nn.MultiheadAttention(6, 2, kdim=4, vdim=2, batch_first=True),
            lambda layer, x: layer(x, x[..., :4], x[..., :2])[0],
        ),
        real(B, 7, 6),
    ),
    "attention, zeros": (
        lambda: Call(
            nn.MultiheadAttention(6, 2, add_zero_attn=True, batch_first=True), lambda layer, x: layer(x, x, x)[0]
        ),
        real(B, 7, 6),
    ),
    "attention, extra keys": (
        lambda: Call(
            nn.MultiheadAttention(6, 2, add_bias_kv=True, batch_first=True), lambda layer, x: layer(x, x, x)[0]
        ),
        real(B, 7, 6),
    ),
    "attention, time first": (
        lambda: Time(Call(nn.MultiheadAttention(6, 2), lambda layer, x: layer(x, x, x))),
        real(B, 7, 6),
    ),
    "transformer layer": (
        lambda: nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True),
        real(B, 7, 6),
    ),
    "transformer layer, norm first": (
        lambda: nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True, norm_first=True),
        real(B, 7, 6),
    ),
    "embedding bag": (lambda: nn.EmbeddingBag(6, 3), indices(B, 5)),
    "prelu": (lambda: nn.PReLU(3), real(B, 3, 4)),
    "bilinear": (lambda: Call(nn.Bilinear(3, 3, 2), lambda layer, x: layer(x, x.sin())), real(B, 3)),
}


# torch says that an uneven padding='same' makes a copy, and that vmap has no fast path for Bilinear: true, not ours
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel", "ignore:There is a performance drop")
@pytest.mark.parametrize("name", TABLE)
def test_layer_equals_loop(name):
    torch.manual_seed(0)
    make, draw, *options = TABLE[name]
    model = make().double()
    for p in model.parameters():
        p.data.copy_(torch.randn_like(p) / 2)  # scales of one and biases of zero would hide mistakes
    x = draw()
    assert_equals_loop(model, x.double() if x.is_floating_point() else x, **(options[0] if options else {}))


def test_table_covers_every_rule():
    described = {type(m).forward for make, *_ in TABLE.values() for m in make().modules()}
    assert set(closed_forms.CLOSED_FORMS) - {nn.SyncBatchNorm.forward} <= described
    assert set(layers.REPLAYS) <= described


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("chunk", [1, 40, 100])
@pytest.mark.parametrize("name", ["linear, many positions", "conv2d, groups", "bilinear", "attention, extra keys"])
def test_chunks_of_examples(monkeypatch, name, chunk):
    """The result is independent of the chunk size and of how squares are summed."""
    from vadam.curvature.perexample import vmapped

    for module in (gradients, vmapped):
        monkeypatch.setattr(module, "CHUNK", chunk)
    monkeypatch.setattr(gradients, "SHARED_CHUNK", chunk)
    for long in (0, 10**6):
        monkeypatch.setattr(gradients, "LONG", long)
        test_layer_equals_loop(name)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_convolution(data):
    draw = data.draw
    dims = draw(st.integers(1, 3), "dimensions")
    per_axis = lambda low, high, name: tuple(draw(st.lists(st.integers(low, high), min_size=dims, max_size=dims), name))  # noqa: E731
    groups = draw(st.integers(1, 3), "groups")
    kernel, stride, dilation = per_axis(1, 3, "kernel"), per_axis(1, 3, "stride"), per_axis(1, 2, "dilation")
    mode = draw(st.sampled_from(["zeros", "reflect", "replicate", "circular"]), "mode")
    padding, space = per_axis(0, 2, "padding"), per_axis(3, 6 if dims < 3 else 4, "space")
    assume(all(s + 2 * p >= d * (k - 1) + 1 for s, p, d, k in zip(space, padding, dilation, kernel, strict=True)))
    channels = [groups * draw(st.integers(1, 2), name) for name in ("in", "out")]
    torch.manual_seed(draw(st.integers(0, 99), "seed"))
    make = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1]
    layer = make(
        *channels, kernel, stride, padding, dilation, groups, bias=draw(st.booleans(), "bias"), padding_mode=mode
    ).double()
    examples = draw(st.integers(1, 5), "examples")
    assert_equals_loop(layer, torch.randn(examples, channels[0], *space, dtype=torch.float64))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    examples=st.integers(1, 5),
    space=st.lists(st.integers(1, 4), max_size=3),
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    bias=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_linear_layer(examples, space, sizes, bias, seed):
    torch.manual_seed(seed)
    assert_equals_loop(
        nn.Linear(*sizes, bias=bias).double(), torch.randn(examples, *space, sizes[0], dtype=torch.float64)
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    examples=st.integers(1, 5),
    space=st.lists(st.integers(1, 4), max_size=3),
    rows=st.integers(1, 4),
    padding=st.one_of(st.none(), st.just(0)),
    seed=st.integers(0, 99),
)
def test_any_embedding(examples, space, rows, padding, seed):
    torch.manual_seed(seed)
    layer = nn.Embedding(rows, 2, padding_idx=padding).double()
    assert_equals_loop(layer, torch.randint(0, rows, (examples, *space)))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    examples=st.integers(1, 5),
    space=st.lists(st.integers(2, 4), max_size=3),
    groups=st.integers(1, 3),
    per_group=st.integers(2, 3),
    seed=st.integers(0, 99),
)
def test_any_normalisation(examples, space, groups, per_group, seed):
    torch.manual_seed(seed)
    channels = groups * per_group
    assert_equals_loop(
        nn.GroupNorm(groups, channels).double(), torch.randn(examples, channels, *space, dtype=torch.float64)
    )
    assert_equals_loop(nn.LayerNorm(channels).double(), torch.randn(examples, *space, channels, dtype=torch.float64))
