"""Fused layers, which compute gradient and squares together, and code around such layers."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.utils.checkpoint import checkpoint

from curvature.perexample.oracle import assert_same, loss_fn, squares
from vadam.curvature import PerExampleSquares
from vadam.curvature.perexample import gradients, loop

N, T = 5, 6


pytestmark = pytest.mark.usefixtures("double")


@pytest.fixture
def visits(monkeypatch):
    """Return how often a gradient was computed through the examples."""
    counted = []
    through = gradients.Gradients.total_through_examples
    monkeypatch.setattr(gradients.Gradients, "total_through_examples", lambda self: counted.append(1) or through(self))
    return counted


class Sequences(nn.Module):
    def __init__(self, activation=torch.tanh, bias=True):
        super().__init__()
        self.first, self.second, self.activation = nn.Linear(3, 4, bias=bias), nn.Linear(4, 2), activation

    def forward(self, x):
        return self.second(self.activation(self.first(x)))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Sequences()


@pytest.fixture
def data():
    torch.manual_seed(1)
    return torch.randn(N, T, 3), torch.randn(N)


def plain_gradients(model, data):
    model.zero_grad()
    loss_fn(model(data[0]), data[1]).backward()
    found = {p: p.grad for p in model.parameters()}
    model.zero_grad()
    return found


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", [torch.tanh, F.relu_])
def test_gradient_and_squares(activation, bias, data, visits):
    torch.manual_seed(0)
    model = Sequences(activation, bias)
    expected = plain_gradients(model, data)
    assert_same(squares(model, *data), loop(model, loss_fn, *data))
    assert len(visits) == 2
    assert_same({p: p.grad for p in model.parameters()}, expected, rtol=1e-12)


def test_the_gradient_of_the_input(model, data):
    x = data[0].requires_grad_()
    (expected,) = torch.autograd.grad(loss_fn(model(x), data[1]), x)
    engine = PerExampleSquares(model)
    loss_fn(model(x), data[1]).backward()
    torch.testing.assert_close(x.grad, expected)
    engine.remove()


def test_a_frozen_weight_and_an_excluded_bias(model, data, visits):
    model.second.weight.requires_grad_(False)
    expected = loop(model, loss_fn, *data)
    h = squares(model, *data, exclude=[model.first.bias])
    assert_same(h, {p: x for p, x in expected.items() if p is not model.first.bias})
    assert model.first.bias.grad is not None
    assert len(visits) == 1


def test_a_layer_used_twice_is_not_visited_twice_the_next_time(data, visits):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.head = nn.Linear(3, 3), nn.Linear(3, 2)

        def forward(self, x):
            return self.head(torch.tanh(self.inner(torch.tanh(self.inner(x)))))

    torch.manual_seed(0)
    model = Twice()
    expected = loop(model, loss_fn, *data)
    engine = PerExampleSquares(model)
    for _ in range(2):
        loss_fn(model(data[0]), data[1]).backward()
        assert_same(engine.take(), expected)
        model.zero_grad()
    assert len(visits) == 3 + 1
    engine.remove()


class Halved(Sequences):
    def forward(self, x):
        return self.second(self.activation(self.first(x) / 2))


def halve(module, args, output):
    return output / 2


@pytest.mark.parametrize("earlier", [True, False])
def test_hooks_that_change_the_output(model, data, earlier):
    """Other hooks run after the engine's, even if they were registered first."""
    hook = model.first.register_forward_hook(halve) if earlier else None
    engine = PerExampleSquares(model)
    hook = hook or model.first.register_forward_hook(halve)
    loss_fn(model(data[0]), data[1]).backward()
    h = engine.take()
    engine.remove()
    hook.remove()
    reference = Halved()
    reference.load_state_dict(model.state_dict())
    expected = loop(reference, loss_fn, *data)
    gradient = plain_gradients(reference, data)
    for p, q in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(h[p], expected[q])
        torch.testing.assert_close(p.grad, gradient[q])


def test_hooks_on_all_modules_that_change_the_output_are_noticed(model, data):
    engine = PerExampleSquares(model)
    hook = register_module_forward_hook(lambda module, args, y: y / 2 if module is model.first else None)
    try:
        with pytest.raises(RuntimeError, match=r"does not .or not only. come from calls"):
            loss_fn(model(data[0]), data[1]).backward()
    finally:
        hook.remove()
        engine.remove()


def test_a_hook_that_changes_the_gradient_at_the_output(model, data):
    engine = PerExampleSquares(model)
    output = model.first(data[0])
    output.register_hook(lambda z: 3 * z)
    loss_fn(model.second(torch.tanh(output)), data[1]).backward()
    h = engine.take()
    engine.remove()
    expected = loop(model, loss_fn, *data)
    for name, p in model.named_parameters():
        torch.testing.assert_close(h[p], expected[p] * (9 if name.startswith("first") else 1))


def test_two_engines_on_one_model(model, data, visits):
    engines = [PerExampleSquares(model) for _ in range(2)]
    loss_fn(model(data[0]), data[1]).backward()
    taken = [engine.take() for engine in engines]
    for engine in engines:
        engine.remove()
    expected = loop(model, loss_fn, *data)
    for h in taken:
        assert_same(h, expected)
    assert len(visits) == 2


@pytest.mark.parametrize("create_graph", [False, True])
def test_recording_that_ends_before_the_backward_pass(model, data, create_graph):
    expected = plain_gradients(model, data)
    engine = PerExampleSquares(model)
    loss = loss_fn(model(data[0]), data[1])
    engine.recording = False
    grads = torch.autograd.grad(loss, list(expected), create_graph=create_graph)
    torch.testing.assert_close(grads, tuple(expected.values()))
    if create_graph:
        second = torch.autograd.grad(sum(g.square().sum() for g in grads), list(expected))
        engine.remove()
        again = torch.autograd.grad(loss_fn(model(data[0]), data[1]), list(expected), create_graph=True)
        torch.testing.assert_close(second, torch.autograd.grad(sum(g.square().sum() for g in again), list(expected)))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing(model, data, reentrant):
    engine = PerExampleSquares(model)
    x = data[0].requires_grad_()
    loss_fn(checkpoint(model, x, use_reentrant=reentrant), data[1]).backward()
    h = engine.take()
    engine.remove()
    assert_same(h, loop(model, loss_fn, data[0].detach(), data[1]))


def test_few_positions_and_autocast_go_the_ordinary_way(model, data, visits):
    squares(model, data[0][:, :3], data[1])
    assert not visits
    model.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        squares(model, data[0].float(), data[1].float())
    assert not visits


def test_sequence_first(model, data, visits):
    class TimeFirst(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x):
            return self.inner(x.transpose(0, 1)).transpose(0, 1)

    h = squares(TimeFirst(), *data, sequence_first=True)
    assert len(visits) == 2
    assert_same(h, loop(model, loss_fn, *data))


def test_a_layer_used_twice_inside_checkpoints_of_two_micro_batches(data):
    """State from the first backward pass must not change what the second recomputes."""

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.head = nn.Linear(3, 3), nn.Linear(3, 2)

        def part(self, x):
            return torch.tanh(self.inner(torch.tanh(self.inner(x))))

        def forward(self, x):
            return self.head(checkpoint(self.part, x, use_reentrant=False))

    torch.manual_seed(0)
    model, (x, y) = Twice(), data
    engine = PerExampleSquares(model)
    halves = [(x[:2], y[:2]), (x[2:4], y[2:4])]
    losses = [loss_fn(model(a), b) / 2 for a, b in halves]
    for loss in losses:
        loss.backward()
    h = engine.take()
    engine.remove()
    assert_same(h, loop(model, loss_fn, x[:4], y[:4]))


@pytest.mark.parametrize("stop", ["recording", "remove"])
def test_an_engine_that_stops_between_a_checkpointed_forward_and_its_backward(model, data, stop):
    expected = plain_gradients(model, data)
    engine = PerExampleSquares(model)
    loss = loss_fn(checkpoint(model, data[0].requires_grad_(), use_reentrant=False), data[1])
    if stop == "recording":
        engine.recording = False
    else:
        engine.remove()
    loss.backward()
    for p, g in expected.items():
        torch.testing.assert_close(p.grad, g)


def test_changes_in_place_are_seen_by_autograd(model, data):
    output = model.first(data[0])
    (plain,) = torch.autograd.grad(output.square().sum(), model.first.weight)
    engine = PerExampleSquares(model)
    output = model.first(data[0])
    product = output * output
    output.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    engine.remove()
    assert plain.shape == model.first.weight.shape


def test_the_weight_may_change_where_no_gradient_goes_further(data):
    head = nn.Linear(3, 2)
    engine = PerExampleSquares(head)
    loss = loss_fn(head(data[0]), data[1])
    expected = loop(head, loss_fn, *data)
    with torch.no_grad():
        head.weight.mul_(1.1)
    loss.backward()
    assert_same(engine.take(), expected)
    engine.remove()


def test_gradients_of_the_input_alone_cost_no_visits_and_leave_nothing(model, data, visits):
    engine = PerExampleSquares(model)
    x = data[0].requires_grad_()
    for _ in range(3):
        torch.autograd.grad(loss_fn(model(x), data[1]), x)
        loss_fn(model(x), data[1]).backward(inputs=[x])
    model(x)
    assert not visits
    assert not any(one.calls for one in engine._followed)
    loss_fn(model(x), data[1]).backward()
    assert_same(engine.take(), loop(model, loss_fn, x.detach(), data[1]))
    engine.remove()


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # of torch itself
def test_derivatives_of_other_kinds(model, data):
    x = data[0]
    jacobian, forward_ad = torch.autograd.functional.jacobian, torch.autograd.forward_ad

    def derivatives():
        with forward_ad.dual_level():
            tangent = forward_ad.unpack_dual(model(forward_ad.make_dual(x, torch.ones_like(x)))).tangent
        return jacobian(model, x, vectorize=True), tangent

    expected = derivatives()
    engine = PerExampleSquares(model)
    torch.testing.assert_close(derivatives(), expected)
    engine.remove()


def test_squares_are_whole_where_the_backward_pass_runs_under_autocast(data):
    model, (x, y) = Sequences().float(), (data[0].float(), data[1].float())
    expected = squares(model, x, y)
    model.zero_grad()
    engine = PerExampleSquares(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.autocast("cpu", enabled=False):
            loss = loss_fn(model(x), y)
        loss.backward()
    h = engine.take()
    engine.remove()
    for p in (model.second.weight, model.second.bias):
        torch.testing.assert_close(h[p], expected[p])


def test_complex_layers_are_left_alone(data):
    layer = nn.Linear(3, 2, dtype=torch.complex128)
    engine = PerExampleSquares(layer)
    loss = layer(data[0] + 0j).abs().square().mean()
    engine.recording = False
    loss.backward()
    gradient, layer.weight.grad = layer.weight.grad, None
    engine.remove()
    layer(data[0] + 0j).abs().square().mean().backward()
    torch.testing.assert_close(gradient, layer.weight.grad)


@pytest.mark.parametrize("wanted", ["weight", "bias"])
def test_a_backward_pass_for_one_parameter(model, data, wanted):
    expected = loop(model, loss_fn, *data)
    engine = PerExampleSquares(model)
    p = getattr(model.first, wanted)
    for _ in range(2):
        loss_fn(model(data[0]), data[1]).backward(inputs=[p])
        torch.testing.assert_close(engine.take()[p], expected[p])
    engine.remove()


class Recurrent(nn.Module):
    """Uses all outputs of an LSTM, and initial states that depend on the input."""

    def __init__(self, **options):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, **options)

    def forward(self, x):
        layers = self.lstm.num_layers * (2 if self.lstm.bidirectional else 1)
        h, c = (f(x.sum((1, 2))).view(1, -1, 1).expand(layers, -1, 4).contiguous() for f in (torch.sin, torch.cos))
        x = x if self.lstm.batch_first else x.transpose(0, 1)
        y, states = self.lstm(x, (h, c))
        y = y if self.lstm.batch_first else y.transpose(0, 1)
        return torch.cat([y.flatten(1), *(s.transpose(0, 1).flatten(1) for s in states)], 1)


LAYERS = {
    "linear": (Sequences, (N, T, 3), 2),
    "conv1d": (lambda: nn.Conv1d(3, 4, 2, stride=2, padding=1), (N, 3, 8), 1),
    "conv2d": (lambda: nn.Sequential(nn.Conv2d(2, 4, 3, dilation=2), nn.Conv2d(4, 2, 2, groups=2)), (N, 2, 9, 8), 2),
    "conv2d, no bias": (lambda: nn.Conv2d(2, 4, 3, bias=False), (N, 2, 5, 5), 1),
    "lstm": (lambda: Recurrent(batch_first=True), (N, T, 3), 2),
    "lstm, deep": (lambda: Recurrent(num_layers=3, bidirectional=True), (N, T, 3), 12),
    "lstm, no bias": (lambda: Recurrent(num_layers=2, bias=False, batch_first=True), (N, T, 3), 4),
}


@pytest.fixture(params=LAYERS)
def layer(request):
    make, shape, visits = LAYERS[request.param]
    torch.manual_seed(0)
    return make(), torch.randn(shape, requires_grad=True), torch.randn(N), visits


def test_gradients_of_parameters_and_inputs_and_squares(layer, visits):
    model, x, y, expected_visits = layer
    wanted = [x, *model.parameters()]
    expected = torch.autograd.grad(loss_fn(model(x), y), wanted)
    expected_squares = loop(model, loss_fn, x.detach(), y)
    engine = PerExampleSquares(model)
    for _ in range(2):  # the first pass checks the gradients, the second does not
        for p in wanted:
            p.grad = None
        visits.clear()
        loss_fn(model(x), y).backward()
        assert len(visits) == expected_visits
        assert_same(engine.take(), expected_squares)
        torch.testing.assert_close([p.grad for p in wanted], list(expected))


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_without_squares(layer, create_graph, visits):
    model, x, y, _ = layer
    wanted = [x, *model.parameters()]

    def derivatives():
        grads = torch.autograd.grad(loss_fn(model(x), y), wanted, create_graph=create_graph)
        if not create_graph:
            return grads
        return torch.autograd.grad(sum(g.square().sum() for g in grads), wanted)

    expected = derivatives()
    engine = PerExampleSquares(model)
    if not create_graph:
        torch.testing.assert_close(derivatives(), expected)
    loss = loss_fn(model(x), y)
    engine.recording = False
    grads = torch.autograd.grad(loss, wanted, create_graph=create_graph)
    if create_graph:
        grads = torch.autograd.grad(sum(g.square().sum() for g in grads), wanted)
    torch.testing.assert_close(grads, expected)
    assert not visits


def test_an_lstm_whose_replay_differs_is_noticed(monkeypatch):
    from vadam.curvature.perexample import lstm

    forward = lstm.replay_forward
    model, x = Recurrent(batch_first=True), torch.randn(N, T, 3)
    monkeypatch.setattr(lstm, "replay_forward", lambda call, x, directions: forward(call, 2 * x, directions))
    with pytest.raises(RuntimeError, match="gives another output"):
        squares(model, x, torch.randn(N))
