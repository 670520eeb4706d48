"""Outputs at many draws: vmap against the loop, the same draws for all inputs, and the model is left unchanged."""

import copy
import signal
import sys
import time
import weakref
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.nn.modules.module import _global_forward_hooks
from torch.utils.data import DataLoader, TensorDataset

import vadam
from vadam import backends, forward
from vadam.forward import Draws, sampled_outputs
from vadam.gaussian import MeanFieldGaussian

S = 20


class Tied(nn.Module):
    """A module with two names for one weight."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4, bias=False)
        self.b = nn.Linear(4, 4)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 5, batch_first=True)
        self.out = nn.Linear(5, 2)

    def forward(self, x):
        return self.out(self.lstm(x[:, None].expand(-1, 3, -1))[0][:, -1])


class Branching(nn.Module):
    """A module whose control flow depends on its weights."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(4))

    def forward(self, x):
        return x @ self.w if self.w.sum() > 0 else -x.sum(1)


class Remembering(nn.Module):
    """A module that writes to a buffer and to an attribute in every forward pass, also in evaluation mode."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 2)
        self.register_buffer("calls", torch.zeros(()))
        self.last = None

    def forward(self, x):
        self.calls += 1
        self.last = self.lin(x)
        return self.last


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 2))


def cnn():
    layers = nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 3, 2, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(27, 2))


VMAPPABLE = {"mlp": mlp, "cnn": cnn, "tied": Tied, "remembering": Remembering}
LOOPED = {"recurrent": Recurrent, "branching": Branching}


def posterior_of(model, stddev=0.3, **kwargs):
    mean = {name: p.detach().clone() for name, p in model.named_parameters()}
    return MeanFieldGaussian(mean, {n: torch.full_like(m, stddev**-2) for n, m in mean.items()}, **kwargs)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def by_hand(model, post, x, samples=S):
    """Return the outputs of a copy of the model with each draw loaded into it."""
    draws, twin, outputs = post.sample(samples, generator=generator()), copy.deepcopy(model).eval(), []
    for s in range(samples):
        twin.load_state_dict({name: value[s] for name, value in draws.items()}, strict=False)
        outputs.append(twin(x).detach())
    return torch.stack(outputs)


@pytest.mark.parametrize("name", VMAPPABLE | LOOPED)
def test_every_path_equals_loading_the_weights_by_hand(name):
    model = (VMAPPABLE | LOOPED)[name]().double()
    post, x = posterior_of(model), torch.randn(6, 4, dtype=torch.float64)
    expected = by_hand(model, post, x)
    ways = [None, False, True] if name in VMAPPABLE else [None, False]
    for vmap in ways:
        for batch_size in (None, 4):
            outputs = sampled_outputs(model, post, x, S, generator=generator(), vmap=vmap, batch_size=batch_size)
            torch.testing.assert_close(outputs, expected, rtol=1e-12, atol=1e-12)


def count_vmaps(monkeypatch):
    chunks = []

    def spy(f, *, chunk_size, randomness, original=torch.vmap):
        batched = original(f, chunk_size=chunk_size, randomness=randomness)
        return lambda weights: chunks.append(chunk_size) or batched(weights)

    monkeypatch.setattr(torch, "vmap", spy)
    return chunks


def test_vmap_takes_as_many_draws_as_fit_and_leaves_large_networks_to_the_loop(monkeypatch):
    chunks, model, x = count_vmaps(monkeypatch), mlp(), torch.randn(6, 4)
    post = posterior_of(model)
    reference = sampled_outputs(model, post, x, S, generator=generator(), vmap=False)
    for floats, expected in ((48 * 100, [100]), (48 * 8, [8]), (48 * 7, []), (1, [])):  # the largest result is [6, 8]
        monkeypatch.setitem(forward.FLOATS_A_PASS, "cpu", floats)
        outputs = sampled_outputs(model, post, x, S, generator=generator())
        torch.testing.assert_close(outputs, reference, rtol=1e-5, atol=1e-6)
        assert chunks == expected
        chunks.clear()
    monkeypatch.setitem(forward.FLOATS_A_PASS, "cpu", 1)
    sampled_outputs(model, post, x, S, vmap=True)
    assert chunks == [1]


@pytest.mark.parametrize("name", LOOPED)
def test_where_vmap_cannot_go_it_is_an_error_only_on_request(name):
    model = LOOPED[name]()
    with pytest.raises(RuntimeError):
        sampled_outputs(model, posterior_of(model), torch.randn(3, 4), S, vmap=True)


def test_randomness_in_evaluation_mode_differs_between_draws():
    class Noisy(nn.Linear):
        def forward(self, x):
            return super().forward(x) + torch.randn(len(x), 1)

    model = Noisy(4, 1)
    outputs = sampled_outputs(model, posterior_of(model, stddev=1e-6), torch.randn(3, 4), S)
    assert outputs[1:].std(0).min() > 0.1


@pytest.mark.parametrize("at_once", [1, 3 * 58, 10**9])
def test_the_draws_do_not_depend_on_how_the_inputs_come(monkeypatch, at_once):
    monkeypatch.setattr(forward, "WEIGHTS_AT_ONCE", at_once)
    model = mlp().double()
    post, x = posterior_of(model), torch.randn(11, 4, dtype=torch.float64)
    x[10] = x[0]
    whole = sampled_outputs(model, post, x, S, generator=generator())
    assert whole.shape == (S, 11, 2)
    torch.testing.assert_close(whole[:, 10], whole[:, 0], rtol=1e-12, atol=1e-12)
    loader = DataLoader(TensorDataset(x), batch_size=3)
    for inputs in (x.split(4), loader, (batch for batch in x.split(5)), [x[:1], x[1:]], [x]):
        outputs = sampled_outputs(
            model, post, list(inputs) if inputs is not loader else inputs, S, generator=generator()
        )
        torch.testing.assert_close(outputs, whole, rtol=1e-12, atol=1e-12)
    for batch_size in (1, 4, 100):
        outputs = sampled_outputs(model, post, x, S, generator=generator(), batch_size=batch_size)
        torch.testing.assert_close(outputs, whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("drawn", [True, False])
def test_batches_are_read_one_after_the_other_where_the_draws_are_in_memory(monkeypatch, drawn):
    """A loader that counts the batches of which something is left; the draws are those of all batches in a list."""
    model, alive, most = mlp(), [], []
    post = posterior_of(model)
    if drawn:
        monkeypatch.setattr(forward, "WEIGHTS_AT_ONCE", 1)

    def loader():
        for _ in range(6):
            batch = x.clone()
            alive.append(weakref.ref(batch))
            most.append(sum(ref() is not None for ref in alive))
            yield batch
            del batch

    x = torch.randn(3, 4)
    weights = vadam.Draws(post, S, generator=generator()) if drawn else post
    outputs = sampled_outputs(model, weights, loader(), S, generator=generator())
    assert max(most) <= 3
    assert torch.equal(outputs, sampled_outputs(model, weights, [x] * 6, S, generator=generator()))


def test_a_loader_that_fails_or_uses_the_model_between_two_batches_meets_the_mean():
    model = mlp().train()
    post, before = posterior_of(model), [p.clone() for p in model.parameters()]

    def loader():
        for _ in range(2):
            assert model.training
            assert torch.is_grad_enabled()
            assert all(map(torch.equal, model.parameters(), before))
            yield torch.randn(3, 4)
        raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        sampled_outputs(model, post, loader(), S)
    assert model.training
    assert all(map(torch.equal, model.parameters(), before))


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 1)

    def forward(self, x, shift, scale=1.0):
        return self.lin(x) * scale + shift


def test_tuples_are_arguments_and_dicts_keyword_arguments():
    model = TwoInputs()
    post, x, shift = posterior_of(model), torch.randn(7, 4), torch.randn(7, 1)
    expected = sampled_outputs(model, post, (x, shift, 2.0), S, generator=generator())
    kwargs = {"x": x, "shift": shift, "scale": 2.0}
    for inputs in (kwargs, [kwargs], [[x, shift, 2.0]]):
        for batch_size in (None, 3):
            outputs = sampled_outputs(model, post, inputs, S, generator=generator(), batch_size=batch_size)
            torch.testing.assert_close(outputs, expected)


class Logits(dict):
    """A dictionary with attributes, as models of Hugging Face return."""

    __getattr__ = dict.__getitem__


class LikeHuggingFace(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = mlp()

    def forward(self, x, mask=None):
        x = x if mask is None else x * mask
        return Logits(logits=self.body(x), hidden_states=None)


def test_outputs_with_logits_stand_for_them():
    model = LikeHuggingFace()
    post, x = posterior_of(model), torch.randn(7, 4)
    outputs = sampled_outputs(model, post, x, S, generator=generator())
    plain = MeanFieldGaussian(
        {name.removeprefix("body."): value for name, value in post.mean.items()},
        {name.removeprefix("body."): value for name, value in post.precision.items()},
    )
    torch.testing.assert_close(outputs, sampled_outputs(model.body, plain, x, S, generator=generator()))


@pytest.mark.parametrize("make", [mlp, LikeHuggingFace], ids=["one input", "an optional second input"])
def test_a_loader_of_pairs_is_its_inputs(make):
    """The targets [B] have a shape that a mask could not have, so an error would show if they were taken for one."""
    model = make()
    post, x = posterior_of(model), torch.randn(7, 4)
    loader = DataLoader(TensorDataset(x, torch.arange(7)), batch_size=3)
    expected = sampled_outputs(model, post, x, S, generator=generator())
    torch.testing.assert_close(sampled_outputs(model, post, loader, S, generator=generator()), expected)


def test_a_loader_of_two_inputs_keeps_both_and_drops_targets_after_them():
    model = TwoInputs()
    post, x, shift = posterior_of(model), torch.randn(7, 4), torch.randn(7, 1)
    expected = sampled_outputs(model, post, (x, shift), S, generator=generator())
    for columns in ((x, shift), (x, shift, torch.arange(7))):
        loader = DataLoader(TensorDataset(*columns), batch_size=3)
        torch.testing.assert_close(sampled_outputs(model, post, loader, S, generator=generator()), expected)


class NeedingNothing(nn.Module):
    """All arguments are optional, as those of Hugging Face's models."""

    def __init__(self):
        super().__init__()
        self.body = mlp()

    def forward(self, x=None, mask=None, scale=None):
        x = x if mask is None else x * mask
        return self.body(x if scale is None else x * scale)


def test_a_loader_of_pairs_where_the_model_needs_none_of_its_arguments():
    """The targets [B] could be taken for a mask, as there are as many rows as columns."""
    model = NeedingNothing()
    post, x, mask, y = posterior_of(model), torch.randn(8, 4), torch.rand(8, 4).round(), torch.arange(8) % 2
    for inputs in ((x,), (x, mask)):
        expected = sampled_outputs(model, post, inputs, S, generator=generator())
        loader = DataLoader(TensorDataset(*inputs, y), batch_size=4)
        torch.testing.assert_close(sampled_outputs(model, post, loader, S, generator=generator()), expected)
    with pytest.raises(ValueError, match="may be an input or the target: give batches that are dicts"):
        sampled_outputs(model, post, DataLoader(TensorDataset(x, mask), batch_size=4), S)
    named = ({"x": part, "mask": m} for part, m in DataLoader(TensorDataset(x, mask), batch_size=4))
    torch.testing.assert_close(sampled_outputs(model, post, named, S, generator=generator()), expected)


class WithOptions(NeedingNothing):
    """One argument is needed, two are optional."""

    def forward(self, x, mask=None, scale=None):
        return super().forward(x, mask, scale)


def test_a_loader_of_an_optional_input_and_targets_leaves_the_targets_out():
    """The targets [B] would be taken for a scale, as there are as many rows as columns, or be one argument too many."""
    model = WithOptions()
    post, x, y = posterior_of(model), torch.randn(8, 4), torch.arange(8)
    mask, scale = torch.rand(8, 4).round(), torch.rand(8, 1)
    for inputs in ((x,), (x, mask), (x, mask, scale)):
        expected = sampled_outputs(model, post, inputs, S, generator=generator())
        loader = DataLoader(TensorDataset(*inputs, y), batch_size=4)
        torch.testing.assert_close(sampled_outputs(model, post, loader, S, generator=generator()), expected)


class NormalisingInPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = mlp()

    def forward(self, x, shift=None):
        x.sub_(1.0).div_(2.0)
        return self.body(x if shift is None else x + shift.mul_(2.0))


@pytest.mark.parametrize("vmap", [None, True, False])
def test_a_model_that_writes_to_its_inputs_sees_each_draw_with_the_inputs_as_given(vmap):
    model = NormalisingInPlace()
    x, shift = torch.randn(7, 4), torch.randn(7, 1)
    before = x.clone(), shift.clone()
    plain = posterior_of(model.body)
    expected = sampled_outputs(model.body, plain, (x - 1.0) / 2.0 + 2.0 * shift, S, generator=generator())
    post = MeanFieldGaussian(
        *({f"body.{name}": value for name, value in part.items()} for part in (plain.mean, plain.precision))
    )
    for inputs in ((x, shift), {"x": x, "shift": shift}):
        for batch_size in (None, 3):
            found = sampled_outputs(model, post, inputs, S, generator=generator(), vmap=vmap, batch_size=batch_size)
            torch.testing.assert_close(found, expected)
    assert torch.equal(x, before[0])
    assert torch.equal(shift, before[1])


class Merging(nn.Linear):
    """An adapter of low rank that is added to the weight in evaluation mode, as loralib does."""

    def __init__(self):
        super().__init__(4, 2)
        self.weight.requires_grad_(False)
        self.down, self.up = nn.Parameter(torch.randn(1, 4)), nn.Parameter(torch.randn(2, 1))
        self.is_merged = False

    def train(self, mode=True):
        super().train(mode)
        if mode is self.is_merged:
            self.weight.data += (-1 if mode else 1) * self.up @ self.down
            self.is_merged = not mode
        return self

    def forward(self, x):
        adapted = super().forward(x)
        return adapted if self.is_merged else adapted + x @ self.down.T @ self.up.T


def test_adapters_that_merge_in_evaluation_mode_keep_their_weights_and_are_drawn():
    model, x = Merging(), torch.randn(5, 4)
    before, expected = model.weight.clone(), model(x).detach()
    mean = {name: getattr(model, name).detach() for name in ("down", "up")}
    post = MeanFieldGaussian(mean, {name: torch.full_like(value, 1e12) for name, value in mean.items()})
    torch.testing.assert_close(sampled_outputs(model, post, x, S).mean(0), expected, rtol=1e-4, atol=1e-4)
    wide = MeanFieldGaussian(mean, {name: torch.ones_like(value) for name, value in mean.items()})
    assert (sampled_outputs(model, wide, x, S).std(0) > 0.01).all()
    assert torch.equal(model.weight, before)
    assert model.training


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_script_is_refused():
    model = mlp()
    with pytest.raises(TypeError, match="give the module that it was made from"):
        sampled_outputs(torch.jit.script(model), posterior_of(model), torch.randn(3, 4), S)


def state_of(model):
    tensors = {name: value.clone() for name, value in model.state_dict().items()}
    return tensors, [m.training for m in model.modules()], [id(p) for p in model.parameters()]


def assert_unchanged(model, before):
    assert not _global_forward_hooks
    tensors, modes, identities = state_of(model)
    assert all(torch.equal(tensors[name], before[0][name]) for name in tensors)
    assert (modes, identities) == before[1:]


@pytest.mark.parametrize("name", VMAPPABLE | LOOPED)
def test_the_model_is_left_as_it_was(name):
    model = (VMAPPABLE | LOOPED)[name]()
    model.train()
    next(model.children(), model).eval()  # part of it frozen in evaluation mode
    before, x = state_of(model), torch.randn(5, 4)
    sampled_outputs(model, posterior_of(model), x, S)
    assert_unchanged(model, before)
    if isinstance(model, Remembering):
        assert model.last is None
        assert model.calls == 0
    expected = copy.deepcopy(model).eval()(x)
    torch.testing.assert_close(model.eval()(x), expected)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("vmap", [None, False])
def test_the_model_is_left_as_it_was_after_an_exception(error, vmap):
    class Failing(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin, self.bn, self.calls = nn.Linear(4, 2), nn.BatchNorm1d(2), 0

        def forward(self, x):
            self.calls += 1
            seen.append(x)
            if len(seen) > 1:
                raise error("on purpose")
            return self.bn(self.lin(x))

    seen = []
    model = Failing().train()
    before = state_of(model)
    with pytest.raises(error, match="on purpose"):
        sampled_outputs(model, posterior_of(model), torch.randn(5, 4), S, vmap=vmap)
    assert_unchanged(model, before)
    assert model.calls == 0


class Interrupting:
    """Calls a function, and sends SIGINT when Python enters or leaves its ``moment``-th function of Python."""

    def __init__(self, moment):
        self.moment, self.seen = moment, 0

    def __call__(self, function):
        sys.setprofile(self._event)
        try:
            function()
        finally:
            sys.setprofile(None)

    def _event(self, _frame, event, _arg):
        self.seen += not event.startswith("c_")  # Python calls no handler just before a function in C
        if self.seen == self.moment and not event.startswith("c_"):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # a signal while a generator is closed is only printed
@pytest.mark.parametrize("vmap", [True, False])
def test_ctrl_c_at_any_moment_leaves_model_and_torch_as_they_were(vmap):
    def predict():
        sampled_outputs(model, post, x, 3, vmap=vmap)

    model, x = nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2)).train(), torch.randn(5, 4)
    post = posterior_of(model)
    predict()
    before = state_of(model)
    counting = Interrupting(0)
    counting(predict)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupted = 0
    try:
        for moment in range(1, counting.seen, 5):
            try:
                Interrupting(moment)(predict)
            except KeyboardInterrupt:
                interrupted += 1
            assert torch._C._functorch.peek_interpreter_stack() is None, moment
            assert torch.is_grad_enabled(), moment
            assert_unchanged(model, before)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert interrupted > counting.seen / 5 - 20


def test_weights_that_the_posterior_does_not_name_keep_their_value():
    model = mlp().double()
    everything = posterior_of(model)
    some = {"0.weight", "4.bias"}
    post = MeanFieldGaussian(*({n: v[n] for n in some} for v in (everything.mean, everything.precision)))
    x = torch.randn(6, 4, dtype=torch.float64)
    outputs = sampled_outputs(model, post, x, S, generator=generator())
    torch.testing.assert_close(outputs, by_hand(model, post, x), rtol=1e-12, atol=1e-12)


def test_a_posterior_of_an_optimizer_that_saw_no_names():
    model, x = mlp(), torch.randn(6, 4)
    model[1].bias.requires_grad_(False)  # a point, which samples hold last
    opt = vadam.Vadam(model.parameters(), lr=1e-2, num_data=6)

    def closure():
        opt.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    opt.step(closure)
    unnamed, with_names = (
        sampled_outputs(model, p, x, S, generator=generator()) for p in (opt.posterior(), opt.posterior(model))
    )
    assert torch.equal(unnamed, with_names)


@pytest.mark.parametrize("named", [False, True])
def test_a_compiled_model_predicts_with_the_names_of_its_parameters(named):
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    compiled = torch.compile(model, backend="eager")
    opt = vadam.Vadam(compiled.named_parameters() if named else compiled.parameters(), num_data=10)
    draws = vadam.Draws(opt.posterior(None if named else compiled), S)
    x = torch.randn(6, 4)
    plain = {name.removeprefix("_orig_mod."): value for name, value in draws.weights.items()}
    expected = torch.stack(
        [torch.func.functional_call(model, {k: v[s] for k, v in plain.items()}, x) for s in range(S)]
    )
    torch.testing.assert_close(sampled_outputs(compiled, draws, x, S), expected)


class Slow(nn.Linear):
    """A module in whose forward pass another thread has its turn."""

    def forward(self, x):
        time.sleep(1e-3)
        return super().forward(x)


@pytest.mark.parametrize("vmap", [None, False])
def test_threads_that_share_a_model_predict_as_one_does(vmap):
    model = nn.Sequential(Slow(4, 8), nn.Tanh(), Slow(8, 2))
    weights = {name: (p, p.detach().clone()) for name, p in model.named_parameters()}
    mean = {name: value for name, (_, value) in weights.items()}
    draws = vadam.Draws(MeanFieldGaussian(mean, {name: torch.full_like(mu, 4.0) for name, mu in mean.items()}), S)
    inputs = [torch.randn(5, 4) for _ in range(6)]

    def outputs(x):
        return sampled_outputs(model, draws, x, S, vmap=vmap)

    alone = [outputs(x) for x in inputs]
    with ThreadPoolExecutor(3) as threads:
        together = [*threads.map(outputs, inputs)]
    for a, b in zip(alone, together, strict=True):
        torch.testing.assert_close(a, b)
    for name, p in model.named_parameters():
        assert p is weights[name][0]
        assert torch.equal(p, weights[name][1])


def test_a_model_attached_to_an_optimizer_is_not_perturbed_by_prediction():
    model, x = mlp(), torch.randn(6, 4)
    opt = vadam.Vadam(model.parameters(), lr=1e-2, num_data=6)
    opt.attach(model)
    model.train()
    before, post = state_of(model), opt.posterior()
    outputs = sampled_outputs(model, post, x, S, generator=generator())
    assert_unchanged(model, before)
    drawn = vadam.Draws(post, S, generator=generator())
    torch.testing.assert_close(outputs, by_hand(model, drawn, x), rtol=1e-5, atol=1e-5)


def test_a_posterior_may_draw_outputs_itself():
    class Constant:
        def outputs(self, x, samples, generator=None):
            return torch.arange(samples)[:, None] + torch.zeros(samples, len(x), dtype=torch.bfloat16)

    with pytest.raises(TypeError, match="a Constant draws no weights"):
        vadam.Draws(Constant(), 3)
    outputs = sampled_outputs(mlp(), Constant(), torch.randn(5, 4), 3, batch_size=2)
    assert outputs.tolist() == [[float(s)] * 5 for s in range(3)]
    assert outputs.dtype == torch.float32


def test_half_precision_outputs_become_single():
    model = mlp().bfloat16()
    outputs = sampled_outputs(model, posterior_of(model), torch.randn(3, 4, dtype=torch.bfloat16), S)
    assert outputs.dtype == torch.float32
    assert not outputs.requires_grad


def two_outputs():
    class Two(nn.Linear):
        def forward(self, x):
            return super().forward(x), x

    return Two(4, 1)


X = torch.randn(6, 4)
BAD = {
    "samples": (lambda m: sampled_outputs(m, posterior_of(m), X, 0), "samples=0"),
    "batch_size": (lambda m: sampled_outputs(m, posterior_of(m), X, S, batch_size=0), "batch_size=0"),
    "array": (lambda m: sampled_outputs(m, posterior_of(m), X.numpy(), S), "x is a ndarray"),
    "number": (lambda m: sampled_outputs(m, posterior_of(m), 3, S), "x is a int"),
    "nothing": (lambda m: sampled_outputs(m, posterior_of(m), [], S), "x holds no batch"),
    "lengths": (lambda m: sampled_outputs(m, posterior_of(m), (X, X[:2]), S, batch_size=3), "lengths are [2, 6]"),
    "unknown": (
        lambda m: sampled_outputs(m, posterior_of(cnn()), X, S),
        "['2.bias', '2.weight', '5.bias', '5.weight'] that",
    ),
    "shape": (
        lambda m: sampled_outputs(nn.Linear(3, 2), posterior_of(nn.Linear(4, 2)), X, S),
        "[20, 2, 3], got [20, 2, 4]",
    ),
    "several outputs": (lambda m: sampled_outputs(two_outputs(), posterior_of(two_outputs()), X, S), "returned tuple"),
    "targets": (
        lambda m: sampled_outputs(m, posterior_of(m), (X, X), S),
        "Leave targets out",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_wrong_use_is_explained(case):
    act, message = BAD[case]
    with pytest.raises((ValueError, TypeError)) as error:
        act(mlp())
    assert message in "\n".join([str(error.value), *getattr(error.value, "__notes__", [])])


def test_weights_drawn_once_serve_many_predictions():
    model, x = mlp(), torch.randn(6, 4)
    post = vadam.Vadam(model.parameters(), num_data=6).posterior(model)
    draws = vadam.Draws(post, 12, generator=generator())
    first = vadam.predict(model, draws, x)
    assert len(draws) == len(first.samples) == 12
    assert torch.equal(first.samples, vadam.predict(model, draws, x).samples)
    torch.testing.assert_close(first.samples[:5], vadam.predict(model, draws, x, samples=5).samples)
    assert not torch.equal(first.samples, vadam.predict(model, vadam.Draws(post, 12), x).samples)
    with pytest.raises(ValueError, match="samples must be at most 12"):
        vadam.predict(model, draws, x, samples=13)
    with pytest.raises(ValueError, match="samples must be a whole number of at least 1, got 0"):
        vadam.Draws(post, 0)


def test_draws_follow_the_posterior():
    """4,000 draws of 50 weights: mean and variance within five standard errors; no two draws alike."""
    mean, precision = torch.linspace(-1, 1, 50), torch.linspace(0.5, 20, 50)
    post = vadam.MeanFieldGaussian({"w": mean}, {"w": precision}, point={"b": torch.ones(2)})
    weights = vadam.Draws(post, 4000, generator=generator()).weights
    z = (weights["w"] - mean) * precision.sqrt()
    assert float(z.mean(0).abs().max()) < 5 / 4000**0.5
    assert float((z.var(0) - 1).abs().max()) < 5 * (2 / 4000) ** 0.5
    assert float(torch.corrcoef(z[:50]).fill_diagonal_(0).abs().max()) < 0.75  # of 50 weights: s.e. 0.14
    assert weights["b"].shape == (4000, 2)


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_one_input_is_multiplied_by_all_draws_at_once(backend, monkeypatch):
    """The first layer has one row for all draws, the second one for each, the third a weight that is not drawn."""
    if backend == "torch":
        monkeypatch.setattr(backends, "has_native", lambda: False)
    model = nn.Sequential(nn.Linear(70, 33), nn.Tanh(), nn.Linear(33, 5, bias=False), nn.Tanh(), nn.Linear(5, 2))
    drawn = posterior_of(model[:4])
    x = torch.randn(1, 70)
    draws = vadam.Draws(drawn, S, generator=generator())
    loop = sampled_outputs(model, draws, x, S, vmap=False)
    assert loop.std(0).min() > 0.01
    for vmap in (None, True):
        torch.testing.assert_close(sampled_outputs(model, draws, x, S, vmap=vmap), loop, rtol=1e-5, atol=1e-6)


def test_vmap_inside_the_model_keeps_its_own_rows():
    class Inner(nn.Linear):
        def forward(self, x):
            return torch.vmap(lambda row: torch.nn.functional.linear(row[None], self.weight, bias=self.bias)[0])(x)

    model, x = Inner(4, 2), torch.randn(3, 4)
    draws = vadam.Draws(posterior_of(model), S, generator=generator())
    loop = sampled_outputs(model, draws, x, S, vmap=False)
    torch.testing.assert_close(sampled_outputs(model, draws, x, S, vmap=True), loop, rtol=1e-5, atol=1e-6)


class Streaming(nn.Module):
    """Keeps its hidden state in a buffer from call to call."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("hidden", torch.zeros(5, 3))

    def forward(self, x):
        self.hidden.copy_(self.layer(x + self.hidden))
        return self.hidden.clone()


@pytest.mark.parametrize("context", [nullcontext, torch.inference_mode])
@pytest.mark.parametrize("vmap", [None, False])
def test_a_state_that_a_model_keeps_does_not_go_from_draw_to_draw(context, vmap):
    model, x = Streaming(), torch.randn(5, 3)
    post = MeanFieldGaussian(
        dict(model.named_parameters()), {k: torch.ones_like(p) for k, p in model.named_parameters()}
    )
    draws = Draws(post, 12)
    with context():
        outputs = sampled_outputs(model, draws, x, 12, vmap=vmap)
    for s in range(12):
        wanted = x @ draws.weights["layer.weight"][s].T + draws.weights["layer.bias"][s]
        torch.testing.assert_close(outputs[s], wanted)
    assert model.hidden.count_nonzero() == 0


class Stateful(nn.Module):
    """Keeps its hidden state in an attribute from call to call."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.hidden = None

    def forward(self, x):
        self.hidden = self.layer(x if self.hidden is None else x + self.hidden)
        self.calls = getattr(self, "calls", 0) + 1
        return self.hidden


@pytest.mark.parametrize("vmap", [None, False])
def test_a_state_in_an_attribute_does_not_go_from_draw_to_draw_or_batch_to_batch(vmap):
    model, x = Stateful(), torch.randn(5, 3)
    draws = Draws(posterior_of(model), 12)
    outputs = sampled_outputs(model, draws, x, 12, vmap=vmap, batch_size=3)
    for s in range(12):
        wanted = x @ draws.weights["layer.weight"][s].T + draws.weights["layer.bias"][s]
        torch.testing.assert_close(outputs[s], wanted)
    assert model.hidden is None
    assert "calls" not in vars(model)


class Keeping(nn.Module):
    """Keeps its hidden state and what it derives from its weights in one of several ways."""

    def __init__(self, way):
        super().__init__()
        self.layer, self.way = nn.Linear(4, 4, bias=False), way
        self.hidden, self.cache, self.seen = [[None]], {}, {0}
        self.state, self.queue = torch.zeros(4), deque([0.0])

    def forward(self, x):
        if self.way == "list":
            old = self.hidden[0][0]
            self.hidden[0][0] = self.layer(x) if old is None else self.layer(x) + old
            return self.hidden[0][0]
        if self.way == "dict":
            self.cache.setdefault("weight", self.layer.weight)
            return x @ self.cache["weight"].T
        if self.way == "set":
            self.seen.add(len(self.seen))
            return self.layer(x) * len(self.seen) / 2
        if self.way == "deque":
            self.queue.append(1.0)
            return self.layer(x) * (len(self.queue) - 1)
        self.state.add_(1)
        return self.layer(x) * self.state


@pytest.mark.parametrize("way", ["list", "dict", "set", "deque", "tensor"])
@pytest.mark.parametrize("vmap", [None, False])
def test_what_a_model_keeps_in_containers_and_tensors_is_left_as_it_was(way, vmap):
    model, x = Keeping(way), torch.randn(5, 4)
    draws = Draws(posterior_of(model), 12)
    outputs = sampled_outputs(model, draws, x, 12, vmap=vmap, batch_size=3)
    for s in range(12):
        torch.testing.assert_close(outputs[s], x @ draws.weights["layer.weight"][s].T)
    assert (model.hidden, model.cache, model.seen, model.queue) == ([[None]], {}, {0}, deque([0.0]))
    assert not model.state.any()


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_a_scripted_layer_is_in_evaluation_mode_and_in_training_mode_again():
    model, x = nn.Sequential(nn.Linear(4, 2), torch.jit.script(nn.Dropout(0.5))).train(), torch.randn(5, 4)
    draws = Draws(posterior_of(model), 3)
    outputs = sampled_outputs(model, draws, x, 3)
    for s in range(3):
        torch.testing.assert_close(outputs[s], x @ draws.weights["0.weight"][s].T + draws.weights["0.bias"][s])
    assert model[1].training


class Masked(nn.Module):
    """Shows the mask that it uses in each forward pass."""

    def __init__(self, show):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("mask", torch.ones(4, 4).tril())
        self.show = show

    def forward(self, x):
        self.show(self.mask)
        return self.layer(x) @ self.mask


def test_buffers_are_copied_once_for_all_batches():
    seen = []
    model = Masked(seen.append)
    sampled_outputs(model, posterior_of(model), torch.randn(20, 4), 3, batch_size=2, vmap=False)
    assert len(seen) == 30
    assert len({mask.data_ptr() for mask in seen}) == 1
