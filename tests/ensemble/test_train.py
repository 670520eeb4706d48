"""Stacks against single networks: every engine, every method, the same numbers."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from ensemble.reference import METHODS, train_alone
from vadam.ensemble import MLP, Member, Method, Settings, Trainer, train
from vadam.ensemble.minibatches import Order
from vadam.gaussian import MeanFieldGaussian

IDS = [f"{m.name}-S{m.samples}" for m in METHODS]


def problem(likelihood="gaussian", n=23, D=3):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, D))
    f = x[:, 0] - 0.5 * x[:, 1]
    if likelihood == "gaussian":
        return x, np.sin(f)
    if likelihood == "bernoulli":
        return x, (f > 0).astype(float)
    return x, np.digitize(f, [-0.5, 0.5])


def some_members(likelihood="gaussian", method=METHODS[0], **common):
    """Three networks that differ in everything in which they may."""
    x, y = problem(likelihood)
    rows = [np.arange(20), np.arange(3, 23), np.arange(0, 23, 2)]
    own = [
        {"seed": 0, "prior_precision": 2.0, "noise_precision": 5.0},
        {"seed": 7, "prior_precision": 0.5, "noise_precision": 1.0, "lr": 0.01, "num_data": 50},
        {"seed": 3, "prior_precision": 20.0, "noise_precision": 9.0, "epochs": 1},
    ]
    rates = [0.1, 0.4, 0.2] if method.drops_out else [0.0] * 3
    return [
        Member(x, y, train=r, test=np.setdiff1d(np.arange(len(x)), r), dropout=rate, **{**numbers, **common})
        for r, numbers, rate in zip(rows, own, rates, strict=True)
    ]


class Scaled(nn.Module):
    """A line with a weight that is a number."""

    def __init__(self):
        super().__init__()
        self.line, self.scale = nn.Linear(3, 1), nn.Parameter(torch.ones(()))

    def forward(self, x):
        return self.line(x) * self.scale


@pytest.mark.parametrize("engine", ["auto", "loop"])
def test_a_weight_may_be_a_number(engine):
    setting = {"epochs": 2, "batch_size": 8, "dtype": torch.float64, "engine": engine}
    training = train(some_members(), Scaled(), Method("vogn", lr=0.05), **setting)
    assert training.stack.posterior(0).mean["scale"].shape == ()
    assert training.stack.outputs(problem()[0], samples=4).shape == (3, 4, 23, 1)
    alone = train(some_members()[1:2], Scaled(), Method("vogn", lr=0.05), **setting)
    assert alone.scores["rmse"].item() == pytest.approx(training.scores["rmse"][1].item(), rel=1e-9)


def assert_same_weights(stack, e, mean, stddev, atol):
    for name, value in mean.items():
        torch.testing.assert_close(stack.mean[name][e], value, rtol=0, atol=atol)
    assert (stddev is None) == (stack.precision is None)
    for name, value in (stddev or {}).items():
        torch.testing.assert_close(stack.precision[name][e].rsqrt(), value, rtol=0, atol=atol)


@pytest.mark.parametrize("engine", ["bmm", "vmap", "loop"])
@pytest.mark.parametrize("method", METHODS, ids=IDS)
def test_stack_equals_the_obvious_loop(method, engine):
    """Lock step over three epochs with a small last minibatch; all arithmetic in float64, so only rounding may differ."""
    network, members = MLP(3, 5, 1), some_members(method=method)
    setting = {"epochs": 2, "batch_size": 8, "schedule": lambda t, T: 1 - 0.5 * t / T}
    training = train(members, network, method, engine=engine, standardise=False, dtype=torch.float64, **setting)
    for e, member in enumerate(members):
        mean, stddev = train_alone(member, network, method, likelihood="gaussian", **setting)
        assert_same_weights(training.stack, e, mean, stddev, atol=1e-10)


@pytest.mark.parametrize("engine", ["bmm", "vmap"])
@pytest.mark.parametrize("likelihood", ["bernoulli", "categorical"])
@pytest.mark.parametrize("method", [METHODS[0], METHODS[3]], ids=["Vadam", "VOGN"])
def test_likelihoods_and_deep_networks(likelihood, method, engine):
    network = MLP(3, 4, 5, 1 if likelihood == "bernoulli" else 3, activation="tanh")
    members = some_members(likelihood)
    setting = {"epochs": 2, "batch_size": 8, "likelihood": likelihood}
    training = train(members, network, method, engine=engine, standardise=False, dtype=torch.float64, **setting)
    for e, member in enumerate(members):
        mean, stddev = train_alone(member, network, method, **setting)
        assert_same_weights(training.stack, e, mean, stddev, atol=1e-10)


def test_any_module_through_vmap():
    network = nn.Sequential(nn.Unflatten(1, (1, 3)), nn.Conv1d(1, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 1))
    setting = {"epochs": 2, "batch_size": 8}
    members = some_members()
    training = train(members, network, METHODS[0], standardise=False, dtype=torch.float64, **setting)
    for e, member in enumerate(members):
        mean, stddev = train_alone(member, network, METHODS[0], likelihood="gaussian", **setting)
        assert_same_weights(training.stack, e, mean, stddev, atol=1e-10)


@pytest.mark.parametrize("method", METHODS, ids=IDS)
def test_member_does_not_depend_on_its_stack(method):
    """A member gives the same result alone, in a stack, in chunks of two, and in another order.

    In float32, uncompiled torch computes the last few numbers of a tensor one by one, and exp and log may then differ in the
    last place: 1e-6. The compiled step is exact, below.
    """
    members = some_members(method=method)
    setting = {"epochs": 3, "batch_size": 8}
    together = train(members, MLP(3, 5, 1), method, **setting)
    chunked = train(members, MLP(3, 5, 1), method, chunk=2, **setting)
    turned = train(members[::-1], MLP(3, 5, 1), method, **setting)
    for e, member in enumerate(members):
        alone = train([member], MLP(3, 5, 1), method, **setting)
        for other, place in ((alone, 0), (chunked, e), (turned, len(members) - 1 - e)):
            assert_same_weights(other.stack, place, *weights_of(together.stack, e), atol=1e-6)
            for name, values in together.scores.items():
                assert other.scores[name][place] == pytest.approx(float(values[e]), abs=1e-5)


def weights_of(stack, e):
    stddev = None if stack.precision is None else {name: p[e].rsqrt() for name, p in stack.precision.items()}
    return {name: value[e] for name, value in stack.mean.items()}, stddev


def test_processes_change_nothing():
    members = some_members()
    setting = {"epochs": 2, "batch_size": 8, "history": True}
    here = train(members, MLP(3, 5, 1), METHODS[0], **setting)
    there = train(members, MLP(3, 5, 1), METHODS[0], jobs=2, **setting)
    for e in range(len(members)):
        assert_same_weights(there.stack, e, *weights_of(here.stack, e), atol=1e-6)
        torch.testing.assert_close(there.history["rmse"][e], here.history["rmse"][e], rtol=0, atol=1e-5)


def test_compiled_step():
    """Fused arithmetic rounds differently, by a few units in the last place of float32; bit for bit in any stack."""
    members = some_members()
    setting = {"epochs": 5, "batch_size": 8}
    eager = train(members, MLP(3, 5, 1), METHODS[0], compiled=False, **setting)
    compiled = train(members, MLP(3, 5, 1), METHODS[0], compiled=True, **setting)
    for e, member in enumerate(members):
        assert_same_weights(compiled.stack, e, *weights_of(eager.stack, e), atol=1e-5)
        alone = train([member], MLP(3, 5, 1), METHODS[0], compiled=True, **setting)
        assert len(alone.stack) == 1
        assert_same_weights(alone.stack, 0, *weights_of(compiled.stack, e), atol=0)


def test_compiled_dropout():
    """The other branch of the step: points, masks, a deep network. A fallback would warn, and warnings are errors."""
    network, method = MLP(3, 5, 4, 1, activation="tanh"), METHODS[-1]
    setting = {"epochs": 5, "batch_size": 8}
    eager = train(some_members(method=method), network, method, compiled=False, **setting)
    compiled = train(some_members(method=method), network, method, compiled=True, **setting)
    for e in range(3):
        assert_same_weights(compiled.stack, e, *weights_of(eager.stack, e), atol=1e-5)


def test_goes_on_where_nothing_can_be_compiled(monkeypatch):
    def broken(f, **options):
        def run(*args):
            raise RuntimeError("no C++ compiler")

        return run

    monkeypatch.setattr(torch, "compile", broken)
    method = Method("vadam", lr=0.0123, samples=2)  # a method of its own: compiled steps are kept by method
    with pytest.warns(UserWarning, match="cannot be compiled here.*no C.. compiler"):
        slow = train(some_members(), MLP(3, 5, 1), method, epochs=1, compiled=True)
    assert not slow.diverged.any()


def test_small_last_minibatch_is_averaged_over_its_own_size():
    """11 rows in minibatches of 8: with frozen weights the two steps of Adam see the mean gradients of 8 and of 3 rows."""
    x, y = problem(n=11)
    member = Member(x, y, seed=1)
    method = Method("adam", lr=1e-12, betas=(0.0, 0.0))  # m is then the last gradient itself
    settings = Settings(MLP(3, 1), method, epochs=1, batch_size=8, standardise=False, dtype=torch.float64)
    trainer = Trainer([member], settings)
    mean = trainer.state.mu
    W, b = mean[0, :3], mean[0, 3]
    order, sizes = Order(11, 8, 2, seed=1).take(2)
    assert sizes.tolist() == [8, 3]
    assert sorted([*order[0], *order[1][:3]]) == list(range(11))
    for t, batch in enumerate(trainer.batches()):
        trainer.step(batch)
        inputs, targets = torch.as_tensor(x[order[t][: sizes[t]]]), torch.as_tensor(y[order[t][: sizes[t]]])
        residual = inputs @ W + b - targets
        expected = torch.cat([(residual[:, None] * inputs).mean(0), residual.mean()[None]]) + mean[0] / 11
        torch.testing.assert_close(trainer.state.m[0], expected, rtol=0, atol=1e-8)


def test_divergence_stays_alone():
    members = some_members()
    wild = Member(members[0].x, members[0].y, test=[0, 1], seed=5, lr=1e30)
    calm = train(members, MLP(3, 5, 1), METHODS[0], epochs=20, batch_size=8)
    mixed = train([members[0], wild, *members[1:]], MLP(3, 5, 1), METHODS[0], epochs=20, batch_size=8)
    assert mixed.diverged.tolist() == [False, True, False, False]
    assert mixed.scores["log_likelihood"][1] == -math.inf
    assert mixed.scores["joint_log_likelihood"][1] == -math.inf
    assert mixed.scores["rmse"][1] == math.inf
    for e, place in enumerate((0, 2, 3)):
        assert_same_weights(mixed.stack, place, *weights_of(calm.stack, e), atol=1e-6)


def test_first_weights_are_those_of_the_module():
    stack = train(some_members(lr=1e-30), MLP(3, 5, 1), Method("adam"), epochs=1).stack
    torch.manual_seed(7)
    for name, p in MLP(3, 5, 1).named_parameters():
        assert torch.equal(stack.mean[name][1], p)


def test_own_first_weights():
    init = {name: torch.full_like(p, 0.25) for name, p in MLP(3, 5, 1).named_parameters()}
    stack = train(some_members(init=init, lr=1e-30), MLP(3, 5, 1), Method("adam"), epochs=1).stack
    assert all((value == 0.25).all() for value in stack.mean.values())


def test_history_ends_in_the_final_state():
    members = some_members()
    training = train(members, MLP(3, 5, 1), METHODS[0], epochs=4, batch_size=8, history=True)
    for name, curves in training.history.items():
        assert [len(curve) for curve in curves] == [4, 4, 1]
        # Other samples of the same posterior: 100 of them, so within a few tenths of each other.
        for e, curve in enumerate(curves):
            assert abs(curve[-1] - training.scores[name][e]) < 0.5


def test_members_of_a_stack_are_chosen_as_rows_of_an_array_are():
    x, y = problem()
    stack = train([Member(x, y, seed=seed) for seed in range(4)], MLP(3, 5, 1), METHODS[0], epochs=1).stack
    mask, whole = [True, False, True, True], stack.outputs(x, samples=2)
    for chosen in (mask, np.array(mask), torch.tensor(mask), [0, 2, 3], torch.tensor([0, 2, 3]), np.array([0, 2, 3])):
        part = stack[chosen]
        assert (len(part), part.seeds) == (3, [0, 2, 3])
        assert torch.equal(part.outputs(x, samples=2), whole[[0, 2, 3]])
    assert stack[stack.finite].seeds == stack[range(4)].seeds == stack[:].seeds == [0, 1, 2, 3]
    assert (stack[1:3].seeds, stack[-1].seeds, stack[np.int64(1)].seeds) == ([1, 2], [3], [1])
    assert (len(stack[[]]), len(stack[~stack.finite]), [len(one) for one in stack]) == (0, 0, [1, 1, 1, 1])
    with pytest.raises(IndexError):
        stack[[True, False]]


def test_nothing_is_kept_for_cross_validation():
    training = train(some_members(), MLP(3, 5, 1), METHODS[0], epochs=1, keep=False)
    assert training.stack is None
    assert set(training.scores) == {"rmse", "log_likelihood", "joint_log_likelihood"}


def test_learns():
    """A line with noise of precision 25: the predictions come close to the line, the fit to the noise's entropy."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(220, 2))
    y = x @ [1.0, -2.0] + 3 + 0.2 * rng.normal(size=220)
    members = [
        Member(x, y, train=np.arange(200), test=np.arange(200, 220), seed=s, noise_precision=25 * y.var())
        for s in range(2)
    ]
    for method in (
        Method("vadam", lr=0.02, betas=(0.9, 0.99), samples=4),
        Method("vogn", lr=0.1, beta=0.99, samples=4, init_precision=1e3),
        Method("adam", lr=0.02, drops_out=True),
    ):
        training = train(members, MLP(2, 20, 1), method, epochs=60)
        assert (training.scores["rmse"] < 0.35).all(), method
        assert (training.scores["log_likelihood"] > -0.6).all(), method


def test_progress_is_reported():
    seen = []
    train(
        some_members(), MLP(3, 5, 1), METHODS[0], epochs=1, chunk=2, progress=lambda done, of: seen.append((done, of))
    )
    assert seen == [(2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"members": []}, "no member to train"),
        ({"epochs": 0}, "epochs=0 is not valid"),
        ({"batch_size": 2.5}, "batch_size=2.5 is not valid"),
        ({"chunk": 0}, "chunk=0 is not valid"),
        ({"engine": "fast"}, "engine='fast' is not valid"),
        ({"likelihood": "cauchy"}, "likelihood='cauchy' is not valid"),
        ({"network": MLP(4, 5, 1)}, r"cannot take rows of shape \[3\]"),
        ({"network": MLP(3, 5, 2)}, "do not fit 2 outputs"),
        (
            {"method": Method("vadam", init_precision=1.0)},
            r"member 0: init_precision must be at least prior_precision=2.0, got 1.0",
        ),
        (
            {"method": Method("adam", drops_out=True), "network": nn.Linear(3, 1)},
            "drops_out=True needs a vadam.ensemble.MLP",
        ),
        ({"network": nn.Linear(3, 1), "engine": "bmm"}, "engine='bmm' is for perceptrons"),
        (
            {"method": Method("vadam", batch_size=8), "batch_size": 4},
            "the method has batch_size=8, but a step of the training sees batch_size=4 examples",
        ),
    ],
)
def test_wrong_arguments(change, message):
    arguments = {"members": some_members(), "network": MLP(3, 5, 1), "method": METHODS[0], **change}
    members, network, method = (arguments.pop(name) for name in ("members", "network", "method"))
    with pytest.raises(ValueError, match=message):
        train(members, network, method, **arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train": [0, 99]}, r"train=\[0, 99\] of member 0 is not valid: give row numbers from 0 to 22"),
        ({"test": []}, "test=.* of member 0 is not valid"),
        ({"prior_precision": -1.0}, r"member 0: prior_precision must be in \[0, inf\), got -1.0"),
        ({"lr": -1.0}, r"member 0: lr must be in \[0, inf\), got -1.0"),
        ({"num_data": 0}, r"member 0: num_data must be in \(0, inf\), got 0"),
        ({"noise_precision": 0.0}, "noise_precision=0.0 of member 0"),
        ({"noise_precision": math.nan}, "noise_precision=nan of member 0"),
        ({"dropout": 1.0}, "dropout=1.0 of member 0"),
        ({"dropout": 0.5}, "dropout=0.5 of member 0 has no effect: .* drops_out=True"),
        ({"y": np.zeros(3)}, "23 rows of x and 3 of y"),
        ({"x": np.full((23, 3), np.nan)}, "not finite"),
        (
            {"init": {"weight": torch.ones(5, 3)}},
            r"init of member 0 has 'weight' of shape \[5, 3\], .* 0.weight \[5, 3\]",
        ),
        (
            {"init": {"0.weight": torch.ones(3, 5)}},
            r"init of member 0 has '0.weight' of shape \[3, 5\], which does not fit",
        ),
    ],
)
def test_wrong_members(change, message):
    x, y = problem()
    with pytest.raises(ValueError, match=message):
        train([Member(**{"x": x, "y": y, **change})], MLP(3, 5, 1), METHODS[0], epochs=1)


@pytest.mark.parametrize("engine", ["vmap", "loop"])
@pytest.mark.parametrize("layer", [nn.Dropout(0.5), nn.BatchNorm2d(2)])
def test_layers_that_depend_on_chance_or_on_other_rows_are_refused(layer, engine):
    """The loop would drop out in predictions, too, and let the statistics of a minibatch into them."""
    network = nn.Sequential(nn.Conv2d(1, 2, 3), layer, nn.Flatten(), nn.Linear(8, 1)).train()
    members = [Member(torch.randn(9, 1, 4, 4), torch.randn(9), test=[0, 1])]
    with pytest.raises(ValueError, match=r"'1' is a .* in training mode, .* call network.eval\(\)"):
        train(members, network, METHODS[0], engine=engine, epochs=1)
    assert train(members, network.eval(), METHODS[0], engine=engine, epochs=1).scores["rmse"].isfinite().all()


def test_half_tested():
    x, y = problem()
    with pytest.raises(ValueError, match="1 of 2 members have test rows"):
        train([Member(x, y), Member(x, y, test=[0])], MLP(3, 5, 1), METHODS[0])
    with pytest.raises(ValueError, match="history=True scores the test rows"):
        train([Member(x, y)], MLP(3, 5, 1), METHODS[0], history=True)


def test_temperature_divides_data_and_prior():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    rows, others = np.arange(30), np.arange(30, 40)
    cold = Member(x, y, train=rows, test=others, prior_precision=2.0, temperature=0.1)
    same = Member(x, y, train=rows, test=others, prior_precision=20.0, num_data=300)
    warm = replace(cold, temperature=1.0)
    stack = train([cold, same, warm], MLP(2, 4, 1), Method("vadam", init_precision=100.0), epochs=3, batch_size=8).stack
    for name, precision in stack.precision.items():
        assert torch.equal(stack.mean[name][0], stack.mean[name][1])
        assert torch.equal(precision[0], precision[1])
        assert precision[2].mean() < precision[0].mean()
    with pytest.raises(ValueError, match=r"temperature=0\.0 of member 0 is not valid"):
        train([replace(cold, temperature=0.0)], MLP(2, 4, 1), Method("vadam"), epochs=1)
    with pytest.raises(
        ValueError, match=r"member 0: init_precision must be at least prior_precision=2.0 / temperature=0.1, got 10.0"
    ):
        train([cold], MLP(2, 4, 1), Method("vadam", init_precision=10.0), epochs=1)


class Attention(nn.Module):
    """A layer of attention between linear ones."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(2, 4), nn.Linear(4, 1)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x):
        h = self.first(x)
        return self.last(self.attention(h, h, h, need_weights=False)[0].mean(1))


def test_every_weight_of_attention_starts_from_the_members_seed():
    x, y = torch.randn(8, 3, 2), torch.randn(8)
    members = [Member(x, y, seed=seed) for seed in (0, 1)]
    networks = []
    for seed in (5, 6):  # of the network that is given, which does not matter
        torch.manual_seed(seed)
        method, plain = Method("adam", lr=0.0), {"epochs": 1, "standardise": False, "engine": "loop"}
        networks.append(train(members, Attention(), method, **plain).stack.mean)
    for name, starts in networks[0].items():
        assert torch.equal(starts, networks[1][name]), name
        is_zero = name in ("attention.in_proj_bias", "attention.out_proj.bias")
        assert torch.equal(starts[0], starts[1]) == is_zero, name
        assert not is_zero or not starts.any()


def test_a_frozen_weight_is_refused():
    network = MLP(2, 4, 1)
    network[0].bias.requires_grad_(False)
    members = [Member(np.zeros((5, 2)), np.zeros(5))]
    with pytest.raises(ValueError, match=r"'0.bias' has requires_grad=False"):
        train(members, network, Method("vadam"), epochs=1)


def continued(earlier, temperature=0.2):
    x, y = problem()
    members = [Member(x, y, temperature=temperature, earlier=earlier)]
    return train(members, MLP(3, 4, 1), Method("vadam", lr=0.01), epochs=1, standardise=False).stack.posterior(0)


def test_an_earlier_posterior_that_does_not_fit_is_refused():
    first = continued(None)
    names = dict(zip(first.mean, "abcd", strict=True))
    renamed = MeanFieldGaussian(
        *({names[name]: x for name, x in part.items()} for part in (first.mean, first.precision))
    )
    flat = MeanFieldGaussian(*({name: x[:1] for name, x in part.items()} for part in (first.mean, first.precision)))
    for earlier, message in (
        (renamed, "the earlier posterior of member 0 lacks"),
        (flat, "the earlier posterior of member 0 of .* has shape"),
        (first.prune(0.5)[1], "is pruned, but its weights would be sampled again"),
    ):
        with pytest.raises(ValueError, match=message):
            continued(earlier)
    with pytest.raises(ValueError, match=r"has the temperature 0.2, but the member 1: give it"):
        continued(first, temperature=1.0)
    assert continued(first.tempered(2.0)).num_weights == first.num_weights


def test_a_posterior_that_went_on_knows_its_temperature():
    """Otherwise it would be a prior too narrow by that factor."""
    first = continued(None)
    second = continued(first)
    assert second.temperature == first.temperature == dict.fromkeys(first.mean, pytest.approx(0.2))


class Keeping(nn.Module):
    """Keeps what it has seen."""

    def __init__(self):
        super().__init__()
        self.layer, self.map, self.passes = nn.Linear(1, 1), None, []

    def forward(self, x):
        self.map = self.layer(x)
        self.passes.append(1)
        return self.map * len(self.passes)


@pytest.mark.parametrize("engine", ["vmap", "loop"])
def test_a_module_keeps_nothing_of_the_passes(engine):
    x, network = torch.randn(20, 1), Keeping()
    stack = train([Member(x, x), Member(x, -x)], network, Method("vogn"), epochs=2, batch_size=10, engine=engine).stack
    outputs = stack.outputs(x, 3)
    assert (network.map, network.passes) == (None, [])
    torch.testing.assert_close(outputs[:, :, 5:], stack.outputs(x[5:], 3))
    copy.deepcopy(network)
