"""Misuse raises an error that says what to do."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from curvature.perexample.oracle import loss_fn, squares
from vadam.curvature import PerExampleSquares

B = 4
torch.manual_seed(0)  # of the weights below: a penalty may come out small by chance


class Calling(nn.Module):
    def __init__(self, layer, how):
        super().__init__()
        self.layer, self.how = layer, how

    def forward(self, x):
        return self.how(self.layer, x)


class Own(nn.Module):
    """A module with its own parameter."""

    def __init__(self, how):
        super().__init__()
        self.weight, self.how = nn.Parameter(torch.ones(3)), how

    def forward(self, x):
        return self.how(self.weight, x)


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.head, self.positions = nn.Linear(3, 2), nn.Embedding(7, 3)

    def forward(self, x):
        return self.head(x + self.positions(torch.arange(x.shape[1])))


def packed(layer, x):
    sequence = nn.utils.rnn.pack_padded_sequence(x, [7, 5, 4, 2], batch_first=True)
    return nn.utils.rnn.pad_packed_sequence(layer(sequence)[0], batch_first=True)[0]


def flattened(layer, x):
    return layer[1](layer[0](x).flatten(0, 1)).view(len(x), -1)


def branching(weight, x):
    return x * weight if x.sum().item() > 0 else x - weight


SEQUENCE, IMAGE, VECTOR = torch.randn(B, 7, 3), torch.randn(B, 3, 4, 4), torch.randn(B, 3)

WRONG = {
    "batch norm": (
        nn.BatchNorm2d(3),
        IMAGE,
        "BatchNorm2d.* mixes the examples.*GroupNorm.*eval mode.*deterministic=True",
    ),
    "flattened before a layer": (
        Calling(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2)), flattened),
        SEQUENCE,
        "Linear 'layer.0' saw 4 examples, Linear 'layer.1' saw 28",
    ),
    "positions without examples": (
        Positions(),
        SEQUENCE,
        "Embedding 'positions' saw 7 examples, Linear 'head' saw 4.*expand positional",
    ),
    "weight used directly": (
        Calling(nn.Linear(3, 3), lambda layer, x: F.linear(layer(x), layer.weight)),
        VECTOR,
        "gradient of 'layer.weight' does not .* come from calls of the layer",
    ),
    "weight used only directly": (
        Calling(nn.Linear(3, 2), lambda layer, x: x @ layer.weight.T),
        VECTOR,
        "gradient of 'layer.weight' does not",
    ),
    "penalty": (
        Calling(nn.Linear(3, 2), lambda layer, x: layer(x) + layer.weight.square().sum()),
        VECTOR,
        "leave penalties to prior_precision",
    ),
    "packed sequence": (
        Calling(nn.LSTM(3, 2, batch_first=True), packed),
        SEQUENCE,
        "PackedSequence: pad the sequences",
    ),
    "frequency scaling": (
        nn.Embedding(5, 3, scale_grad_by_freq=True),
        torch.zeros(B, 2, dtype=torch.long),
        "scale_grad_by_freq=True, which mixes the examples",
    ),
    "random module": (
        Own(lambda w, x: F.dropout(x * w)),
        VECTOR,
        "cannot be run example by example.*module of their own",
    ),
    "module that mixes examples": (
        Own(lambda w, x: (x - x.mean(0)) * w),
        VECTOR,
        "gives another output.*mixes the examples",
    ),
    "module that standardises by the minibatch": (
        Own(lambda w, x: (x - x.mean(0)) / (x - x.mean(0)).norm(dim=0) * w),  # one example alone: 0/0
        VECTOR,
        "gives another output.*mixes the examples",
    ),
    "control flow": (Own(branching), VECTOR, "cannot be run example by example"),
    "scalar output": (
        Calling(Own(lambda w, x: w.sum()), lambda layer, x: x * layer(x)),
        VECTOR,
        "no axis for the examples",
    ),
    "input changed in place": (
        Calling(Own(lambda w, x: x + w), lambda layer, x: layer(x := x.clone()) * x.add_(1)),
        VECTOR,
        "changed in place",
    ),
    "unbatched linear": (
        Calling(nn.Linear(4, 3), lambda layer, x: layer(x[:, 0]) * x),
        torch.randn(4, 3),
        "no axis for the examples",
    ),
    "unbatched convolution": (
        Calling(nn.Conv1d(B, B, 1), lambda layer, x: layer(x)),
        VECTOR,
        r"\(4, 3\), which has no axis",
    ),
    "unbatched layer norm": (nn.LayerNorm((B, 3)), VECTOR, "no axis for the examples"),
    "unbatched instance norm": (nn.InstanceNorm1d(B, affine=True), VECTOR, "no axis for the examples"),
    "unbatched recurrent": (Calling(nn.GRU(3, 2), lambda layer, x: layer(x)[0]), VECTOR, "no axis for the examples"),
    "unbatched recurrent cell": (
        Calling(nn.GRUCell(3, 3), lambda layer, x: layer(x[0]) * x),
        VECTOR,
        "no axis for the examples",
    ),
    "unbatched attention": (
        Calling(nn.MultiheadAttention(3, 1), lambda layer, x: layer(x, x, x)[0]),
        VECTOR,
        "no axis for the examples",
    ),
    "unbatched embedding": (
        Calling(nn.Embedding(5, 3), lambda layer, x: layer(torch.tensor(1)) * x),
        VECTOR,
        "no axis for the examples",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_message(name):
    model, x, message = WRONG[name]
    with pytest.raises((ValueError, RuntimeError), match=f"(?s){message}"):
        squares(model, x, torch.randn(len(x)))


def test_the_way_out_of_batch_norm():
    model, x, y = nn.Sequential(nn.Conv2d(3, 2, 3), nn.BatchNorm2d(2)), IMAGE, torch.randn(B)
    assert set(squares(model, x, y, exclude=model[1].parameters())) == set(model[0].parameters())
    model[1].eval()
    assert set(squares(model, x, y)) == set(model.parameters())


def test_backward_twice_through_one_graph():
    model = nn.Linear(3, 2)
    engine = PerExampleSquares(model)
    loss = loss_fn(model(VECTOR), torch.zeros(B))
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="a second time: add the losses up"):
        loss.backward()
    engine.discard()
    assert engine.recording


def test_create_graph():
    model = nn.Linear(3, 2)
    engine = PerExampleSquares(model)
    with pytest.raises(RuntimeError, match=r"create_graph=True: set engine.recording = False"):
        torch.autograd.grad(loss_fn(model(VECTOR), torch.zeros(B)), model.weight, create_graph=True)
    engine.recording = False
    torch.autograd.grad(loss_fn(model(VECTOR), torch.zeros(B)), model.weight, create_graph=True)


def test_sharing_between_reentrant_checkpoints():
    layer = nn.Linear(3, 3)
    engine = PerExampleSquares(layer)
    x = VECTOR.clone().requires_grad_()
    hidden = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=True)
    loss = loss_fn(torch.utils.checkpoint.checkpoint(layer, hidden, use_reentrant=True), torch.zeros(B))
    with pytest.raises(RuntimeError, match="use_reentrant=False"):
        loss.backward()
    engine.remove()


def test_parametrised_layer():
    model = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    with pytest.raises(ValueError, match=r"'parametrizations.weight' is parametrised.*remove the parametrisation"):
        PerExampleSquares(model)
    assert set(squares(model, VECTOR, torch.randn(B), params=[model.bias])) == {model.bias}


def test_parameter_of_another_model():
    with pytest.raises(ValueError, match=r"a parameter of shape \(2,\) is not part of the model"):
        PerExampleSquares(nn.Linear(3, 2), params=[nn.Parameter(torch.zeros(2))])


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated")
def test_parameters_that_a_layer_was_given_later():
    model = nn.utils.weight_norm(nn.Linear(3, 2))
    with pytest.raises(RuntimeError, match=r"gradient of 'weight_[gv]' does not"):
        squares(model, VECTOR, torch.randn(B))


def test_subclass_with_a_forward_of_its_own_is_not_taken_for_its_parent():
    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    torch.manual_seed(0)
    doubled, plain, y = Doubled(3, 2), nn.Linear(3, 2), torch.zeros(B)
    plain.load_state_dict({k: 2 * v for k, v in doubled.state_dict().items()})
    h, expected = squares(doubled, VECTOR, y), squares(plain, VECTOR, y)
    torch.testing.assert_close(h[doubled.weight], 4 * expected[plain.weight])
