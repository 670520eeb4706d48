"""Whole networks equal the loop over examples; with dropout, the loop over examples on the minibatch's own graph."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import vadam
from curvature.perexample.oracle import assert_equals_loop, assert_same, on_one_graph, squares

B = 5


class ResidualBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.GroupNorm(2, channels)
        self.conv2, self.norm2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.GroupNorm(2, channels)

    def forward(self, x):
        y = F.relu_(self.norm1(self.conv1(x)))
        return F.relu_(self.norm2(self.conv2(y)) + x)


class TransformerBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class LanguageModel(nn.Module):
    """Embeddings tied to the output layer, positions added to every example, one block used twice."""

    def __init__(self, vocabulary=7, width=6):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(10, width)
        self.block = TransformerBlock(width, heads=2)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, index):
        x = self.tokens(index) + self.positions(torch.arange(index.shape[1]).expand_as(index))
        return self.head(self.norm(self.block(self.block(x))))


class Recurrent(nn.Module):
    def __init__(self, batch_first, dropout=0.0):
        super().__init__()
        self.batch_first = batch_first
        self.embed = nn.Embedding(7, 3)
        self.lstm = nn.LSTM(3, 4, num_layers=2, batch_first=batch_first, dropout=dropout)
        self.head = nn.Linear(4, 7)

    def forward(self, index):
        if self.batch_first:
            return self.head(self.lstm(self.embed(index))[0])
        return self.head(self.lstm(self.embed(index.T))[0]).transpose(0, 1)


class VisionTransformer(nn.Module):
    """Parameters that belong to the model itself: a class token and positions."""

    def __init__(self, width=4):
        super().__init__()
        self.patches = nn.Conv2d(1, width, 2, stride=2)
        self.token, self.positions = nn.Parameter(torch.randn(1, 1, width)), nn.Parameter(torch.randn(1, 5, width))
        self.block, self.head = TransformerBlock(width, heads=2), nn.Linear(width, 3)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.block(x)[:, 0])


class TimeFirst(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x.transpose(0, 1)).transpose(0, 1)


def encoder(batch_first, dropout=0.0):
    layer = nn.TransformerEncoderLayer(6, 2, 8, dropout=dropout, batch_first=batch_first)
    stack = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(6), enable_nested_tensor=False)
    return stack if batch_first else TimeFirst(stack)


class Seq2Seq(nn.Module):
    def __init__(self, batch_first):
        super().__init__()
        self.batch_first = batch_first
        self.inner = nn.Transformer(6, 2, 1, 1, 8, dropout=0.0, batch_first=batch_first)

    def forward(self, x):
        if self.batch_first:
            return self.inner(x, x[:, :4].cos())
        return self.inner(x.transpose(0, 1), x[:, :4].cos().transpose(0, 1)).transpose(0, 1)


def images():
    return torch.randn(B, 1, 4, 4, dtype=torch.float64)


def tokens():
    return torch.randint(0, 7, (B, 8))


def sequences():
    return torch.randn(B, 7, 6, dtype=torch.float64)


def residual_cnn():
    blocks = [ResidualBlock(4), ResidualBlock(4)]
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), *blocks, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3)
    )


def mlp():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))


NETWORKS = {
    "mlp": (mlp, lambda: torch.randn(B, 6, dtype=torch.float64), {}),
    "mlp on sequences": (mlp, sequences, {}),
    "residual cnn": (residual_cnn, images, {}),
    "language model": (LanguageModel, tokens, {}),
    "vision transformer": (VisionTransformer, images, {}),
    "lstm": (lambda: Recurrent(batch_first=True), tokens, {}),
    "lstm, time first": (lambda: Recurrent(batch_first=False), tokens, {"sequence_first": True}),
    "encoder": (lambda: encoder(batch_first=True), sequences, {}),
    "encoder, time first": (lambda: encoder(batch_first=False), sequences, {}),
    "transformer": (lambda: Seq2Seq(batch_first=True), sequences, {}),
    "transformer, time first": (lambda: Seq2Seq(batch_first=False), sequences, {}),
}


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")  # torch's own Transformer, time first
@pytest.mark.parametrize("name", NETWORKS)
def test_network_equals_loop(name):
    torch.manual_seed(1)
    make, draw, options = NETWORKS[name]
    assert_equals_loop(make().double(), draw(), rtol=1e-9, **options)


WITH_DROPOUT = {
    "mlp": (lambda: nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.Linear(8, 2)), sequences, {}),
    "lstm": (lambda: Recurrent(batch_first=True, dropout=0.3), tokens, {}),
    "lstm, time first": (lambda: Recurrent(batch_first=False, dropout=0.3), tokens, {"sequence_first": True}),
    "encoder": (lambda: encoder(batch_first=True, dropout=0.3), sequences, {}),
    "encoder, time first": (lambda: encoder(batch_first=False, dropout=0.3), sequences, {}),
}


@pytest.mark.parametrize("name", WITH_DROPOUT)
def test_dropout_masks_are_those_of_the_forward_pass(name):
    torch.manual_seed(2)
    make, draw, options = WITH_DROPOUT[name]
    model, x, y = make().double(), draw(), torch.randn(B, dtype=torch.float64)
    torch.manual_seed(3)
    expected = on_one_graph(model, x, y)
    drawn = torch.rand(1)
    torch.manual_seed(3)
    assert_same(squares(model, x, y, **options), expected, rtol=1e-9)
    assert torch.equal(torch.rand(1), drawn)  # and the generator goes on as it would have


def test_float32_is_as_good_as_float32_can_be():
    torch.manual_seed(4)
    model, x, y = residual_cnn(), images(), torch.randn(B, dtype=torch.float64)
    h = squares(model, x.float(), y.float())
    expected = squares(model.double(), x, y)  # the same parameters, now in float64
    for p, e in expected.items():
        torch.testing.assert_close(h[p].double(), e, rtol=1e-3, atol=1e-5 * e.max().item())


class Keeping(nn.Module):
    """Has parameters of its own, and keeps what it has seen."""

    def __init__(self):
        super().__init__()
        self.weight, self.map, self.maps, self.passes = nn.Parameter(torch.randn(4, 4)), None, {}, 0

    def forward(self, x):
        self.map = (x @ self.weight).softmax(-1).detach()
        self.maps["last"] = self.map
        self.passes += 1
        return self.map * x + x @ self.weight


def test_the_second_pass_of_a_module_leaves_its_attributes():
    model = nn.Sequential(nn.Linear(3, 4), Keeping(), nn.Linear(4, 2))
    opt = vadam.VOGN(model.parameters(), num_data=8).attach(model)
    for steps in (1, 2):
        opt.zero_grad()
        (model(torch.randn(8, 3)) ** 2).sum().backward()
        opt.step()
        assert model[1].passes == steps
    assert model[1].map.shape == (8, 4)
    assert torch.equal(copy.deepcopy(model)[1].maps["last"], model[1].map)
