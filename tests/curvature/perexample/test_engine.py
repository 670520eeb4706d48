"""The engine collects squares over minibatches, micro-batches, shared layers, modes, copies and failures."""

import contextlib
import copy
import gc
import pickle
import weakref
from itertools import combinations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from curvature.perexample.oracle import assert_same, loss_fn, squares
from vadam.curvature import PerExampleSquares, expected_magnitude, magnitude
from vadam.curvature.perexample import loop
from vadam.curvature.perexample.call import Call

N = 5


pytestmark = pytest.mark.usefixtures("double")


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


@pytest.fixture
def data():
    torch.manual_seed(1)
    return torch.randn(N, 3), torch.randn(N)


@pytest.mark.parametrize("M", range(1, N + 1))
def test_unbiased_at_every_batch_size(model, data, M):
    """Over all minibatches of M, the mean of ĥ is the mean of squares over all data, and that of ĝ∘ĝ is Theorem 1's."""
    x, y = data
    batches = [list(b) for b in combinations(range(N), M)]
    mean, mean_magnitude = ({p: torch.zeros_like(p) for p in model.parameters()} for _ in range(2))
    for batch in batches:
        model.zero_grad()
        for p, h in squares(model, x[batch], y[batch]).items():
            mean[p] += h / len(batches)
            mean_magnitude[p] += magnitude(p.grad) / len(batches)
    expected = loop(model, loss_fn, x, y)
    assert_same(mean, expected)

    model.zero_grad()
    loss_fn(model(x), y).backward()
    theorem_1 = {p: expected_magnitude(h, p.grad, num_data=N, batch_size=M) for p, h in expected.items()}
    assert_same(mean_magnitude, theorem_1)


def test_one_example_gives_the_gradient_magnitude(model, data):
    x, y = data
    h = squares(model, x[:1], y[:1])
    assert_same(h, {p: magnitude(p.grad) for p in model.parameters()})


@pytest.mark.parametrize("sizes", [(5,), (1, 4), (2, 2, 1), (1,) * 5])
def test_micro_batches_make_up_one_minibatch(model, data, sizes):
    x, y = data
    engine = PerExampleSquares(model)
    for part_x, part_y in zip(x.split(sizes), y.split(sizes), strict=True):
        (loss_fn(model(part_x), part_y) / len(sizes)).backward()
    assert_same(engine.take(), loop(model, loss_fn, x, y))


def test_micro_batches_that_skip_a_parameter(data):
    x, y = data
    torch.manual_seed(0)
    branches = nn.ModuleList([nn.Linear(3, 2), nn.Linear(3, 2)])
    engine = PerExampleSquares(branches)
    for branch, examples in zip(branches, (slice(0, 2), slice(2, 5)), strict=True):
        (loss_fn(branch(x[examples]), y[examples]) / 2).backward()
    h = engine.take()
    for branch, examples in zip(branches, (slice(0, 2), slice(2, 5)), strict=True):
        share = len(x[examples]) / len(x)  # the other examples have gradient zero
        assert_same(
            {p: h[p] for p in branch.parameters()},
            {p: e * share for p, e in loop(branch, loss_fn, x[examples], y[examples]).items()},
        )


def test_take_resets_the_engine(model, data):
    engine = PerExampleSquares(model)
    loss_fn(model(data[0]), data[1]).backward()
    first = engine.take()
    assert engine.take() == {}
    loss_fn(model(data[0]), data[1]).backward()
    assert_same(engine.take(), first, rtol=0)


def test_weights_are_read_again_after_a_change_in_place(data):
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return (x * self.scale).tanh() * self.scale

    torch.manual_seed(0)
    model = nn.Sequential(Scale(), nn.Linear(3, 2))
    engine = PerExampleSquares(model)
    for _ in range(3):
        with torch.no_grad():
            for p in model.parameters():
                p.add_(torch.randn_like(p))
        loss_fn(model(data[0]), data[1]).backward()
        h = engine.take()
        engine.recording = False
        assert_same(h, loop(model, loss_fn, *data))
        engine.recording = True


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(3, 2)

    def forward(self, x):
        return self.embed(x) * self.embed(x.flip(1))


def test_a_layer_used_twice_adds_up_before_the_square(data):
    torch.manual_seed(0)
    model = Siamese()
    assert_same(squares(model, *data), loop(model, loss_fn, *data))


def test_one_parameter_under_two_names(data):
    class TwoNames(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = self.gain = nn.Parameter(torch.randn(3))

        def forward(self, x):
            return (x * self.scale).tanh() * self.gain

    torch.manual_seed(0)
    cell = nn.LSTM(3, 3, num_layers=2, batch_first=True)
    cell.weight_ih_l1 = cell.weight_ih_l0
    for model, x in ((TwoNames(), data[0]), (nn.Sequential(cell, First()), torch.randn(N, 4, 3))):
        assert_same(squares(model, x, data[1]), loop(model, loss_fn, x, data[1]))


def test_two_forward_passes_into_one_loss(model, data):
    x, y = data
    engine = PerExampleSquares(model)
    (loss_fn(model(x), y) + loss_fn(model(x.cos()), y)).backward()
    h = engine.take()
    engine.remove()
    both = lambda output, target: loss_fn(output, target) + loss_fn(model(current.cos()), target)  # noqa: E731
    expected = {p: torch.zeros_like(p) for p in model.parameters()}
    for i in range(N):
        current = x[i : i + 1]
        for p, e in loop(model, both, current, y[i : i + 1]).items():
            expected[p] += e / N
    assert_same(h, expected)


def test_two_forward_passes_before_two_backward_passes(model, data):
    x, y = data
    engine = PerExampleSquares(model)
    losses = [loss_fn(model(x[:2]), y[:2]) / 2, loss_fn(model(x[2:]), y[2:]) / 2]
    for loss in losses:
        loss.backward()
    assert_same(engine.take(), loop(model, loss_fn, x, y))


def test_outputs_that_depend_on_one_another_and_outputs_that_do_not(data):
    class Several(nn.Module):
        """hidden is a step on the way to output; by_the_way depends on no parameter and gets its gradient last."""

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3))

        def forward(self, x):
            hidden = (x * self.weight).tanh()
            return {"output": hidden * self.weight, "hidden": hidden, "by_the_way": x * 2}

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.several = nn.Linear(3, 3), Several()

        def forward(self, x):
            out = self.several(self.before(x))
            return torch.cat([out["output"] + out["hidden"], out["by_the_way"].sin().cos().exp()], 1)

    torch.manual_seed(0)
    model = Model()
    assert_same(squares(model, *data), loop(model, loss_fn, *data))


@pytest.mark.parametrize("layer", [nn.Linear(3, 4), nn.LSTM(3, 4, batch_first=True)])
def test_outputs_changed_in_place(layer):
    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.head = layer.double(), nn.Linear(4, 2)

        def forward(self, x):
            output = self.layer(x)
            return self.head(F.relu_(output[0] if isinstance(output, tuple) else output))

    torch.manual_seed(0)
    model, x, y = InPlace(), torch.randn(N, 6, 3), torch.randn(N)
    assert_same(squares(model, x, y), loop(model, loss_fn, x, y))


def test_input_by_keyword(data):
    class Keyword(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 2)

        def forward(self, x):
            return self.inner(input=x)

    model = Keyword()
    assert_same(squares(model, *data), loop(model, loss_fn, *data))


def test_frozen_excluded_and_unused_parameters_are_absent(model, data):
    first, last = model[0], model[2]
    model.append(nn.Linear(2, 2))  # followed, but skipped in the forward pass below
    first.bias.requires_grad_(False)
    engine = PerExampleSquares(model, exclude=[last.weight])
    loss_fn(model[:3](data[0]), data[1]).backward()
    h = engine.take()
    assert set(h) == {first.weight, last.bias}
    engine.remove()
    expected = loop(model[:3], loss_fn, *data)
    assert_same(h, {p: expected[p] for p in h})
    assert set(squares(model[:3], *data, params=[last.weight])) == {last.weight}


def test_nothing_is_recorded_when_not_asked_to(model, data):
    engine = PerExampleSquares(model)
    with torch.no_grad():
        model(data[0])
    engine.recording = False
    loss_fn(model(data[0]), data[1]).backward()
    engine.recording = True
    assert engine.take() == {}
    loss_fn(model.eval()(data[0]), data[1])  # no backward pass
    loss_fn(model.train()(data[0]), data[1]).backward()
    assert_same(engine.take(), loop(model, loss_fn, *data))


def test_gradients_of_inputs_do_not_count(model, data):
    """A pass for the gradient at x, as for adversarial examples, adds nothing to the parameters' gradients."""
    x, y = data[0].clone().requires_grad_(), data[1]
    engine = PerExampleSquares(model)
    loss = loss_fn(model(x), y)
    torch.autograd.grad(loss, x, retain_graph=True)
    torch.autograd.grad(loss_fn(model(x), y), x)
    loss.backward()
    assert_same(engine.take(), loop(model, loss_fn, *data))


def test_function_transforms_of_the_model_do_not_count(model, data):
    engine = PerExampleSquares(model)
    params = dict(model.named_parameters())
    grad = torch.func.grad(lambda p: loss_fn(torch.func.functional_call(model, p, data[0]), data[1]))
    torch.func.vmap(lambda x: model(x.unsqueeze(0)))(data[0])
    assert set(grad(params)) == set(params)
    assert engine.take() == {}


def test_nothing_is_recorded_while_a_layer_runs_again(data):
    seen = []

    class Watching(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))

        def forward(self, x):
            seen.append(engine.recording)
            return x * self.scale

    model = Watching()
    engine = PerExampleSquares(model)
    loss_fn(model(data[0]), data[1]).backward()
    assert seen == [True, False]
    assert engine.recording


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing(model, data, reentrant):
    x = data[0].clone().requires_grad_()
    model = nn.Sequential(model, nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))
    engine = PerExampleSquares(model)
    hidden = checkpoint(model[0], x, use_reentrant=reentrant)
    loss_fn(checkpoint(model[1:], hidden, use_reentrant=reentrant), data[1]).backward()
    h = engine.take()
    engine.remove()
    assert_same(h, loop(model, loss_fn, *data))


def test_failure_in_the_forward_pass(model, data):
    engine = PerExampleSquares(model)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        nn.Sequential(*model, nn.Linear(9, 1))(data[0])
    engine.discard()
    loss_fn(model(data[0]), data[1]).backward()
    assert_same(engine.take(), loop(model, loss_fn, *data))


def test_failure_in_the_backward_pass(model, data):
    def fail(grad):
        raise KeyboardInterrupt

    engine = PerExampleSquares(model)
    hidden = model[0](data[0])
    hidden.register_hook(fail)
    with pytest.raises(KeyboardInterrupt):
        loss_fn(model[2](hidden), data[1]).backward()
    assert engine.recording
    engine.discard()
    loss_fn(model(data[0]), data[1]).backward()
    assert_same(engine.take(), loop(model, loss_fn, *data))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_of_the_model_do_not_report(model, data, duplicate):
    engine = PerExampleSquares(model)
    twin = duplicate(model)
    loss_fn(twin(data[0]), data[1]).backward()
    assert engine.take() == {}
    h, expected = squares(twin, *data), squares(model, *data)
    assert_same(h, {ours: expected[theirs] for ours, theirs in zip(twin.parameters(), model.parameters(), strict=True)})


def test_the_model_does_not_keep_the_engine_alive(model, data):
    engine = PerExampleSquares(model)
    gone = weakref.ref(engine)
    del engine
    gc.collect()
    assert gone() is None
    loss_fn(model(data[0]), data[1]).backward()


def hooks_of(model):
    on_modules = [h for m in model.modules() for h in (*m._forward_hooks.values(), *m._forward_pre_hooks.values())]
    on_params = [h for p in model.parameters() for h in (p._backward_hooks or {}).values()]
    return [*on_modules, *on_params, *(h for p in model.parameters() for h in p._post_accumulate_grad_hooks.values())]


def test_an_engine_that_is_dropped_takes_its_hooks_along(model, data):
    engine = PerExampleSquares(model)
    assert hooks_of(model)
    loss_fn(model(data[0]), data[1])  # no backward pass
    loss_fn(model(data[0]), data[1]).backward()
    del engine
    assert not hooks_of(model)


@pytest.mark.parametrize("finish", [PerExampleSquares.take, lambda engine: None])
def test_neither_the_engine_nor_the_model_is_part_of_a_reference_cycle(model, data, request, finish):
    """Both are freed at once, without the garbage collector."""
    gc.collect()
    gc.disable()
    request.addfinalizer(gc.enable)
    model = copy.deepcopy(model)  # the fixture keeps the other
    engine = PerExampleSquares(model)
    loss_fn(model(data[0]), data[1]).backward()
    finish(engine)
    gone = [weakref.ref(engine), *map(weakref.ref, engine._followed), weakref.ref(model), weakref.ref(model[0].weight)]
    del engine, model
    assert [ref() for ref in gone] == [None] * len(gone)


def test_remove_leaves_the_model_as_it_was(model, data):
    engine = PerExampleSquares(model)
    engine.remove()
    assert not hooks_of(model)
    loss_fn(model(data[0]), data[1]).backward()
    assert engine.take() == {}


def test_activations_are_let_go_after_the_backward_pass(model, data):
    engine = PerExampleSquares(model)
    losses = []
    for _ in range(3):
        losses.append(loss_fn(model(data[0]), data[1]))  # keeping the loss keeps the graph
        losses[-1].backward()
        engine.take()
    layers = [m for m in model if list(m.parameters())]
    calls = [o for o in gc.get_objects() if type(o) is Call and any(o.module is layer for layer in layers)]
    assert len(calls) == 3 * len(layers)
    assert not any(call.args or call.output_grads for call in calls)


def test_autocast():
    """bfloat16 keeps 8 bits: entries of ĥ are off by a few per cent of the largest. The squares themselves are not rounded."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(3, 16), nn.ReLU(), nn.LSTM(16, 4, batch_first=True), First(), nn.Linear(4, 2)
    ).float()
    x, y = torch.randn(N, 6, 3).float(), torch.randn(N).float()
    expected = squares(model, x, y)
    engine = PerExampleSquares(model)
    with torch.autocast("cpu", torch.bfloat16):
        loss_fn(model(x).float(), y).backward()
        inside = engine.take()
        loss = loss_fn(model(x).float(), y)
    loss.backward()
    outside = engine.take()
    assert {h.dtype for h in inside.values()} == {torch.float32}
    for p, e in expected.items():
        torch.testing.assert_close(inside[p], e, rtol=0.1, atol=0.03 * e.max().item())
        torch.testing.assert_close(inside[p], outside[p], rtol=1e-6, atol=0)


class First(nn.Module):
    def forward(self, outputs):
        return outputs[0]


def test_half_precision_model():
    torch.manual_seed(0)
    model, x, y = nn.Sequential(nn.Linear(3, 16), nn.PReLU(16), nn.Linear(16, 2)), torch.randn(N, 3), torch.randn(N)
    expected = squares(model, x, y)
    h = squares(model.bfloat16(), x.bfloat16(), y.bfloat16())
    for p, e in expected.items():
        assert h[p].dtype == torch.float32
        torch.testing.assert_close(h[p].double(), e, rtol=0.1, atol=0.05 * e.max().item())


def test_two_engines_on_one_model(model, data):
    engines = [PerExampleSquares(model), PerExampleSquares(model)]
    F.mse_loss(model(data[0]), data[0][:, :2]).backward()
    assert_same(engines[0].take(), engines[1].take(), rtol=0)


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(6))

    def forward(self, x, gate):
        return x * self.w * gate


def test_what_all_examples_share_is_known_when_it_has_the_size_of_a_minibatch():
    torch.manual_seed(0)
    gate, layer = 1 + 0.04 * torch.linspace(-1, 1, 6), Gate()
    engine = PerExampleSquares(layer)
    for examples in (8, 6):
        x = torch.randn(examples, 6)
        layer(x, gate).square().sum(1).mean().backward()
        each = (2 * x**2 * layer.w * gate**2).detach()
        assert_same(engine.take(), {layer.w: each.square().mean(0)})
    fresh = Gate()
    engine = PerExampleSquares(fresh)
    loss = fresh(x, gate).square().sum(1).mean()
    with pytest.raises(RuntimeError, match="gives another output"):  # otherwise a guess, and this one is wrong
        loss.backward()


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("fails", [False, True])
def test_a_minibatch_whose_gradients_were_cleared_is_left_out(model, data, set_to_none, fails):
    """The model clears its gradients without telling the engine, also after a failed backward pass."""
    x, y = data
    engine = PerExampleSquares(model)

    def failing(grad):
        if fails:
            raise KeyboardInterrupt

    for _ in range(2):
        out = model[1](model[0](x[:3]))
        out.register_hook(failing)
        with pytest.raises(KeyboardInterrupt) if fails else contextlib.nullcontext():
            loss_fn(model[2](out), y[:3]).backward()
    model.zero_grad(set_to_none)
    loss_fn(model(x), y).backward()
    assert_same(engine.take(), loop(model, loss_fn, x, y))


def test_small_and_large_gradients_of_half_precision():
    """The squares of the smallest and largest float16 gradients are exact."""
    model, x = nn.Linear(3, 1).half(), torch.tensor([[1.0, 2.0, 3.0], [2.0, 1.0, 1.0]]).half()
    for scale in (1e-4, 1e3):
        engine = PerExampleSquares(model)
        (scale * model(x)).mean().backward()
        expected = torch.tensor([[2.5, 2.5, 5.0]]) * torch.tensor(scale).half().double() ** 2
        torch.testing.assert_close(engine.take()[model.weight].double(), expected, rtol=5e-3, atol=0)
        engine.remove()


@pytest.mark.parametrize("frozen", [False, True])
def test_batch_norm_without_parameters_to_follow(frozen):
    norm = nn.BatchNorm1d(4, affine=frozen).requires_grad_(False)
    model = nn.Sequential(nn.Linear(3, 4), norm, nn.Linear(4, 2))
    engine, x, y = PerExampleSquares(model), torch.randn(N, 3), torch.randn(N)
    with pytest.raises(ValueError, match="BatchNorm1d '1' is in training mode"):
        model(x)
    norm.eval()
    loss_fn(model(x), y).backward()
    assert_same(engine.take(), loop(model, loss_fn, x, y))


class TimeFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.recurrent, self.out = nn.LSTM(3, 4), nn.Linear(4, 1)

    def forward(self, x):
        return self.out(self.recurrent(x.transpose(0, 1))[0]).transpose(0, 1)


def test_as_many_steps_as_examples_is_asked_about():
    model, x, y = TimeFirst(), torch.randn(N, N, 3), torch.randn(N)

    def mean_loss(output, y):
        return (output.squeeze(-1).sum(1) - y).square().mean()

    engine = PerExampleSquares(model)
    with pytest.raises(ValueError, match="sequence_first=True or False"):
        mean_loss(model(x), y).backward()
    engine.remove()
    model.zero_grad()
    engine = PerExampleSquares(model, sequence_first=True)
    mean_loss(model(x), y).backward()
    assert_same(engine.take(), loop(model, mean_loss, x, y))


class Positions(nn.Module):
    """Tokens [B, T] with positions looked up once for all examples, expanded to all of them, or categories of the examples."""

    def __init__(self, kind):
        super().__init__()
        self.tokens, self.rows, self.out, self.kind = nn.Embedding(9, 4), nn.Embedding(9, 4), nn.Linear(4, 1), kind

    def forward(self, x):
        positions = torch.arange(x.shape[1])
        index = {"shared": positions, "expanded": positions.expand(len(x), -1), "category": x[:, 0], "column": x[:, :1]}
        rows = self.rows(index[self.kind])
        return self.out((self.tokens(x) + (rows.unsqueeze(1) if self.kind == "category" else rows)).tanh()).squeeze(-1)


@pytest.mark.parametrize("kind", ["shared", "expanded", "category", "column"])
def test_positions_of_all_examples_are_not_taken_for_examples(kind):
    """There are as many positions as examples, so that their number does not tell."""
    torch.manual_seed(0)
    model, x, y = Positions(kind), torch.randint(9, (N, N)), torch.randn(N)
    if kind == "column":
        x[:, 0] = torch.arange(N)

    def mean_loss(output, y):
        return (output.sum(1) - y).square().mean()

    engine = PerExampleSquares(model)
    if kind == "shared":
        with pytest.raises(ValueError, match=r"Expand positions to \[B, T\]"):
            mean_loss(model(x), y).backward()
    else:
        mean_loss(model(x), y).backward()
        squares = engine.take()
        engine.remove()
        assert_same(squares, loop(model, mean_loss, x, y))


def test_recurrent_layers_called_by_keyword_in_any_order():
    torch.manual_seed(0)

    class Cell(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.GRUCell(3, 2)

        def forward(self, x):
            return self.cell(hx=x[:, :2], input=x)

    model, x, y = Cell(), torch.randn(N, 3), torch.randn(N)
    assert_same(squares(model, x, y), loop(model, loss_fn, x, y))


def test_weights_and_biases_are_taken_together_once_they_are_known(model, data, monkeypatch):
    """The engine visits a layer once for both, if no other layer shares its parameters."""
    x, y = data
    engine, visits = PerExampleSquares(model), []
    monkeypatch.setattr(
        engine, "take_squares", lambda p, task, take=engine.take_squares: (visits.append(p), take(p, task))
    )
    for expected_visits in (4, 2, 2):
        model.zero_grad()
        visits.clear()
        loss_fn(model(x), y).backward()
        assert len(visits) == expected_visits
        assert_same(engine.take(), loop(model, loss_fn, x, y))
    model[0].bias.requires_grad_(False)
    loss_fn(model(x), y).backward()
    assert set(engine.take()) == {p for p in model.parameters() if p.requires_grad}


EMPTY = {
    "sequences": (nn.Linear(3, 2), (0, 5, 3)),
    "images": (nn.Conv2d(1, 2, 3), (0, 1, 5, 5)),
    "transposed": (nn.ConvTranspose2d(1, 2, 3), (0, 1, 5, 5)),
    "lstm": (nn.LSTM(3, 2, batch_first=True), (0, 5, 3)),
    "gru": (nn.GRU(3, 2, batch_first=True), (0, 5, 3)),
    "tokens": (nn.Embedding(3, 2), (0, 5)),
    "own": (Gate(), (0, 6)),
}


@pytest.mark.parametrize("name", EMPTY)
def test_a_minibatch_without_examples_leaves_zeros(name):
    layer, shape = EMPTY[name]
    engine = PerExampleSquares(layer)
    x = torch.zeros(shape, dtype=torch.long if name == "tokens" else torch.float32)
    output = layer(x, torch.ones(6)) if name == "own" else layer(x)
    (output[0] if isinstance(output, tuple) else output).sum().backward()
    squares = engine.take()
    assert set(squares) == set(layer.parameters())
    assert all(h.shape == p.shape and not h.any() and not p.grad.any() for p, h in squares.items())


def test_no_positions_and_no_examples():
    layer = nn.Linear(3, 2)
    engine = PerExampleSquares(layer)
    layer(torch.randn(N, 0, 3)).sum().backward()
    assert all(not h.any() for h in engine.take().values())
    layer(torch.randn(0, 3)).sum().backward()
    assert all(not h.any() for h in engine.take().values())
    engine.remove()


def test_gradients_that_are_cleared_during_the_backward_pass(model, data):
    """An optimizer may step and clear gradients inside the backward pass."""
    engine = PerExampleSquares(model)
    hooks = [p.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None)) for p in model.parameters()]
    loss_fn(model(data[0]), data[1]).backward()
    h = engine.take()
    engine.remove()
    for hook in hooks:
        hook.remove()
    assert_same(h, loop(model, loss_fn, *data))
