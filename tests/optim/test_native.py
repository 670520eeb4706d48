"""The native loops against the plain rule: every rule, every kind of memory, every way of use; and what an interruption leaves."""

import copy
import gc
import inspect
import math
import subprocess
import sys
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from vadam.optim.kernels import Chunked, Compiled, update_with_magnitude

import vadam
from specs import BY_NAME, SPECS, Problem, Spec, snapshot
from vadam import rules
from vadam.optim import native, native_math, tracing

pytestmark = pytest.mark.skipif(not native.available(), reason='numba is not installed: pip install "vadam[fast]"')

RULES = [
    rules.von,
    rules.vogn,
    rules.vprop,
    rules.vadam,
    rules.vadagrad,
    rules.natural_momentum,
    rules.ivon,
    rules.bbvi,
]
IN_LOOPS = [spec for spec in SPECS if spec.build is not vadam.FullVON and spec.name != "VON-score"]


def trained(spec: Spec, steps: int = 4, **options: object) -> list[Tensor]:
    problem = Problem(torch.float32)
    opt = spec.make_for(problem.model, generator=torch.Generator().manual_seed(1), **options)
    for _ in range(steps):
        problem.step(opt, spec)
    return problem.weights() + snapshot(opt)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__.split(".")[-1])
def test_rules_are_arithmetic(rule: object) -> None:
    assert tracing.is_arithmetic(rule)


def test_the_loop_reads_like_the_rule() -> None:
    source = tracing.loop(
        update_with_magnitude, rules.vprop, ("mu", "g", "s"), ("mu", "s"), ((), ("alpha", "beta", "N", "lam", "tau"))
    )
    scope: dict[str, object] = {"real": float, "sqrt": np.sqrt}
    exec(source, scope)
    mu, g, s, numbers = np.array([1.0]), np.array([2.0]), np.array([3.0]), [0.1, 0.2, 10.0, 5.0, 1.0]
    scope["body"](mu, g, s, numbers, 1)  # type: ignore[operator]
    assert s[0] == pytest.approx(0.8 * 3 + 0.2 * 4)
    assert mu[0] == pytest.approx(1 - 0.1 * (2 + 0.5) / (np.sqrt(3.2) + 0.5))


@pytest.mark.parametrize("spec", IN_LOOPS, ids=str)
@pytest.mark.parametrize("options", [{}, {"store_mean": False}, {"samples": 2, "antithetic": True}], ids=str)
def test_lock_step(spec: Spec, options: dict[str, object]) -> None:
    """Single precision: a few roundings a step, and noise that agrees to 4e-6."""
    if "samples" in options and "context" not in spec.ways:
        options = {"samples": 2}
    for ours, plain in zip(trained(spec, compile=True, **options), trained(spec, **options), strict=True):
        torch.testing.assert_close(ours, plain, rtol=2e-4, atol=2e-5)


def kinds_of_memory() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    draws = [torch.randn(3, 4, 5, 6, generator=generator) for _ in range(5)]
    kinds = [
        draws[0],
        draws[1].to(memory_format=torch.channels_last),
        draws[2].transpose(0, 2),
        draws[3].bfloat16(),
        draws[4].double(),
        torch.randn(70_000, generator=generator),
        torch.randn((), generator=generator),
        torch.empty(0),
    ]
    return [nn.Parameter(x) for x in kinds]


@pytest.mark.parametrize("way", ["closure", "context", "loop"])
def test_every_kind_of_memory(way: str) -> None:
    results = []
    for compiled in (False, True):
        params = kinds_of_memory()
        opt = vadam.Vadam(params, lr=0.01, num_data=100, compile=compiled, generator=torch.Generator().manual_seed(1))

        def backward(params: list[nn.Parameter] = params, opt: vadam.Vadam = opt) -> Tensor:
            opt.zero_grad()
            loss = sum((p.float() - 1).square().sum() for p in params)
            loss.backward()
            return loss

        for _ in range(3):
            if way == "closure":
                opt.step(backward)
            elif way == "context":
                with opt.sampled_params():
                    backward()
                opt.step()
            else:
                opt.zero_grad()
                opt.train()
                sum((p.float() - 1).square().sum() for p in params).backward()
                opt.step()
        results.append([p.detach() for p in params] + [opt.posterior().precision[str(i)] for i in range(len(params))])
    for ours, plain in zip(results[1], results[0], strict=True):
        loose = 2e-2 if plain.dtype == torch.bfloat16 else 2e-4
        torch.testing.assert_close(ours.float(), plain.float(), rtol=loose, atol=loose / 10)


def test_the_same_training_for_any_number_of_threads() -> None:
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            w = nn.Parameter(torch.linspace(-1, 1, 200_003))
            opt = vadam.Vadam([w], num_data=10, compile=True, generator=torch.Generator().manual_seed(0))
            for _ in range(3):
                opt.zero_grad()
                with opt.sampled_params():
                    w.grad = w.detach() - 1
                torch.nn.utils.clip_grad_norm_([w], 1.0)
                opt.step()
            results.append([w.detach(), *snapshot(opt)])
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_norms() -> None:
    run = native.engine(True)
    tensors = [torch.randn(n) for n in (1, 4096, 5, 4097, 100_000)]
    assert run.norms(tensors) == pytest.approx([float(x.double().norm()) for x in tensors], rel=1e-5)
    assert run.norms([torch.tensor([1.0, torch.inf]), torch.ones(4)]) == [torch.inf, 2.0]
    assert np.isnan(run.norms([torch.tensor([1.0, torch.nan])])[0])
    assert run.norms([]) == []
    mixed = [torch.ones(4, dtype=torch.float64), torch.ones(2, 2).T]
    assert run.norms(mixed) == [2.0, 2.0]


def test_one_infinite_gradient_changes_nothing() -> None:
    w = nn.Parameter(torch.ones(10_000))
    opt = vadam.Vadam([w], num_data=10, compile=True)
    opt.train()
    w.grad = torch.zeros(10_000)
    w.grad[7] = torch.inf
    with pytest.raises(FloatingPointError, match="nothing has changed"):
        opt.step()
    assert torch.equal(w, torch.ones(10_000))


_INTERRUPTED = """
import _thread, signal, threading, time
import torch
import vadam

signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background ignores it

w = torch.nn.Parameter(torch.ones(50_000))
opt = vadam.Vadam([w], lr=0.0, num_data=1, prior_precision=1.0, compile=True)

def closure():
    w.grad = torch.zeros_like(w)
    return w.sum()

opt.step(closure)
generator = torch.Generator().manual_seed(0)
interrupted = 0
for _ in range(60):
    timer = threading.Timer(0.004 * float(torch.rand((), generator=generator)), _thread.interrupt_main)
    try:
        timer.start()
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            opt.step(closure)
        timer.join()
    except KeyboardInterrupt:
        interrupted += 1
    timer.join()
    assert torch.equal(w, torch.ones(50_000)), interrupted
assert interrupted > 30, interrupted  # one that comes in a destructor is lost
"""


def test_interrupted_at_any_moment_the_mean_comes_back() -> None:
    """An interrupt at random moments of drawing, restoring and updating: the weights are a mean, old or new, never a sample."""
    subprocess.run([sys.executable, "-c", _INTERRUPTED], check=True, timeout=120)


def test_without_numba_torch_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    native.engine.cache_clear()
    monkeypatch.setattr(native, "available", lambda: False)
    try:
        assert isinstance(native.engine(True), Compiled)
        assert isinstance(native.engine(False), Chunked)
    finally:
        native.engine.cache_clear()


def test_a_rule_without_a_test_here_is_noticed() -> None:
    modules = {module for _, module in inspect.getmembers(rules, inspect.ismodule) if hasattr(module, "precision")}
    assert modules - {rules.full_von} == set(RULES)


def test_momentum_switched_on_in_the_middle() -> None:
    """The packs of the last step are not those of this one: the rule is another."""
    results = []
    for compiled in (False, True):
        problem = Problem(torch.float32)
        spec = BY_NAME["VOGN"]
        opt = spec.make_for(problem.model, generator=torch.Generator().manual_seed(1), compile=compiled)
        problem.step(opt, spec)
        for group in opt.param_groups:
            group["momentum"] = 0.9
        for _ in range(2):
            problem.step(opt, spec)
        results.append(problem.weights())
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain, rtol=2e-4, atol=2e-5)


def linear(inputs: int = 5, outputs: int = 1, **options: object) -> tuple[nn.Linear, vadam.Vadam]:
    model = nn.Linear(inputs, outputs)
    return model, vadam.Vadam(model.parameters(), lr=0.01, num_data=32, compile=True, **options)  # type: ignore[arg-type]


def step(model: nn.Module, opt: vadam.Vadam) -> None:
    def closure() -> Tensor:
        opt.zero_grad()
        loss = model(torch.ones(4, 5)).square().mean()
        loss.backward()
        return loss

    opt.step(closure)


@pytest.mark.parametrize("size", [3, 9])
def test_the_state_of_another_model_is_refused(size: int) -> None:
    (small, opt), (other, another) = linear(outputs=6), linear(outputs=size)
    step(small, opt)
    with pytest.raises(ValueError, match="this checkpoint is of another model"):
        another.load_state_dict(opt.state_dict())
    step(other, another)


@pytest.mark.parametrize("rows", [3, 4000])
def test_a_parameter_that_was_given_other_data_is_refused(rows: int) -> None:
    model, opt = linear(outputs=2000)
    step(model, opt)
    model.weight.data = torch.ones(rows, 5)
    model.bias.data = torch.ones(rows)
    with pytest.raises(RuntimeError, match="was a parameter given other data"):
        step(model, opt)


def test_the_default_device_is_not_that_of_the_weights() -> None:
    model, opt = linear()
    step(model, opt)
    before = torch.get_default_device()
    inputs = torch.ones(4, 5)
    try:
        torch.set_default_device("meta")
        with opt.sampled_params():
            model(inputs).sum().backward()
        opt.step()
    finally:
        torch.set_default_device(before)


def test_gradients_that_are_not_what_lies_in_memory() -> None:
    def one_step(of: list[Tensor], compiled: bool) -> Tensor:
        w = nn.Parameter(torch.ones(6))
        opt = vadam.Vadam([w], lr=0.1, num_data=32, compile=compiled, generator=torch.Generator().manual_seed(0))
        for g in of:
            with opt.sampled_params():
                w.grad = g
            opt.step()
            w.grad = None
        return w.detach()

    grads = [torch._neg_view(torch.arange(6.0)), torch._efficientzerotensor(6)]
    torch.testing.assert_close(one_step(grads, True), one_step(grads, False))


def test_autograd_notices_that_the_weights_have_changed() -> None:
    model, opt = linear()
    inputs = torch.ones(4, 5, requires_grad=True)
    out = model(inputs).square().mean()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"), opt.sampled_params():
        out.backward()


def test_parameters_that_share_memory_find_their_mean_again() -> None:
    a, b = nn.Parameter(torch.ones(8)), nn.Parameter(torch.zeros(8))
    b.data = a.data
    opt = vadam.Vadam([a, b], num_data=1, compile=True)
    with opt.sampled_params():
        assert not torch.equal(a, torch.ones(8))
    assert torch.equal(a, torch.ones(8))


_MIXED = """
import os, signal
import torch
import vadam
from vadam.optim import native

{params}
means = [p.detach().clone() for p in params]
opt = vadam.Vadam(params, lr=0.0, num_data=1, compile=True)
run = native._compiled

def interrupted(*of):
    native_loop = run(*of)
    def call(address, threads):
        native_loop(address, threads)
        calls.append(1)
        if len(calls) == {when}:
            os.kill(os.getpid(), signal.SIGINT)
    return call

for p in params:
    p.grad = torch.zeros_like(p)
for _ in range(2):
    calls = []
    native._compiled = interrupted if _ else run
    try:
        opt.zero_grad()
        opt.train()
        for p in params:
            p.grad = torch.zeros_like(p)
        opt.step()
    except KeyboardInterrupt:
        pass
    opt.eval()
    opt.zero_grad()
assert all(torch.allclose(p.float(), mean.float(), atol=1e-5) for p, mean in zip(params, means)), "not the mean"
"""
CHANNELS_LAST = "params = [torch.nn.Parameter(torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last))]"
TWO_KINDS = "params = [torch.nn.Parameter(torch.ones(300)), torch.nn.Parameter(torch.ones(300, dtype=torch.bfloat16))]"


@pytest.mark.parametrize("params", [CHANNELS_LAST, TWO_KINDS], ids=["channels last", "two kinds"])
@pytest.mark.parametrize("when", [1, 2])
def test_interrupted_behind_a_native_call_the_mean_comes_back(params: str, when: int) -> None:
    script = _MIXED.format(params=params, when=when)
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("where", ["_captured", "_over_ranks", "_update"])
def test_an_error_inside_a_step_leaves_the_mean(where: str, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the sample's end and the update, where the weights may still hold the sample."""
    w = nn.Parameter(torch.ones(50))
    opt = vadam.Vadam([w], lr=0.1, num_data=1, compile=compiled)

    def fails(*_: object) -> None:
        raise KeyboardInterrupt

    opt.train()
    w.grad = torch.ones(50)
    monkeypatch.setattr(opt, where, fails)
    with pytest.raises(KeyboardInterrupt):
        opt.step()
    assert torch.equal(w, torch.ones(50))


def test_a_rule_with_other_functions_is_left_to_torch() -> None:
    """Whatever the function is, and however it is called."""

    class Rule:
        class State(NamedTuple):
            mu: Tensor
            s: Tensor

        @staticmethod
        def precision(state: State, *, lam: float) -> Tensor:
            return state.s.clamp(min=lam)

        @staticmethod
        def update(state: State, g: Tensor, h: Tensor, *, alpha: float) -> State:
            return state._replace(mu=state.mu - alpha * g.tanh())

    assert not tracing.is_arithmetic(Rule)
    Rule.update = staticmethod(lambda state, g, h, *, alpha: state._replace(mu=state.mu - alpha * g))
    assert tracing.is_arithmetic(Rule)


@pytest.mark.parametrize(("name", "function"), [(f.__name__, f) for f in tracing.FUNCTIONS])
def test_functions_of_rules(name: str, function: Callable[[Tensor], Tensor]) -> None:
    """To a few times the rounding of a float32, over all of its range; NaN stays NaN."""
    import numba

    native_function = native_math.functions()[name]

    @numba.njit(fastmath={"contract", "nsz", "arcp"}, error_model="numpy")
    def body(x, y):  # type: ignore[no-untyped-def]
        for i in range(len(x)):
            y[i] = native_function(x[i])

    x = torch.cat([torch.linspace(-86, 86, 100_001), torch.linspace(-3, 3, 100_001), torch.tensor([0.0, math.nan])])
    y = torch.empty_like(x)
    body(x.numpy(), y.numpy())
    torch.testing.assert_close(y.double(), function(x.double()), rtol=4e-7, atol=0, equal_nan=True)


def changed(opt: vadam.Vadam, change: str) -> None:
    """What other code does to an optimizer's state, or to its parameters, between two steps."""
    for group in opt.param_groups:
        for p in group["params"]:
            state = opt.state[p]
            if change == "other tensors":
                opt.state[p] = {name: x * (1.5 if x.ndim else 0.5) for name, x in state.items()}
            elif change == "other data":
                state["s"].data = state["s"].data * 2
            elif change == "moved":
                for x in (p, *state.values()):
                    x.data = x.data.clone()
            elif change == "numbers":
                state["gamma1_t"].mul_(0.5)
            elif change == "numbers of one":
                state["gamma2_t"].mul_(0.5)
                break
            elif change == "frozen":
                p.requires_grad_(p.ndim == 1)
            elif change == "thawed":
                p.requires_grad_(True)
            elif change == "other weights":
                p.data = (p.data * 2).mT.contiguous().mT if p.ndim > 1 else p.data * 2


@pytest.mark.parametrize(
    "changes",
    [
        ["other tensors"],
        ["other data"],
        ["moved"],
        ["numbers"],
        ["numbers of one"],
        ["frozen", "thawed"],
        ["frozen", "numbers", "thawed"],
        ["other weights", "moved"],
    ],
)
def test_what_is_remembered_from_step_to_step_is_looked_at_again(changes: list[str]) -> None:
    def run(compile: bool) -> list[Tensor]:
        problem = Problem(torch.float32)
        opt = vadam.Vadam(
            problem.model.parameters(), num_data=40, generator=torch.Generator().manual_seed(1), compile=compile
        )
        for change in ("nothing", "nothing", *changes, "nothing"):
            changed(opt, change)
            for _ in range(2):
                problem.step(opt, BY_NAME["Vadam"])
        return [p.detach().clone() for p in problem.model.parameters()] + snapshot(opt)

    for plain, compiled in zip(run(False), run(True), strict=True):
        torch.testing.assert_close(compiled, plain, rtol=2e-5, atol=1e-6)


def test_two_optimizers_of_one_shape_in_two_threads() -> None:
    """A native call lets the other thread go on: what it points to must be its own."""

    def run(seed: int) -> list[Tensor]:
        with torch.random.fork_rng():
            model = nn.Linear(300, 200)
            generator = torch.Generator().manual_seed(seed)
            with torch.no_grad():
                for p in model.parameters():
                    p.normal_(generator=generator)
        opt = vadam.Vadam(model.parameters(), num_data=40, generator=generator, compile=True)
        x = torch.randn(16, 300, generator=generator)
        for _ in range(40):
            with opt.sampled_params():
                opt.zero_grad()
                (10.0**seed * model(x).square().mean()).backward()
            opt.step()
        return [p.detach().clone() for p in model.parameters()]

    alone = [run(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(run, range(4)))
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(other, one)


@pytest.mark.parametrize("what", ["weight", "state"])
def test_memory_that_is_read_in_another_order(what: str) -> None:
    """The same address, other strides."""

    def run(compile: bool) -> Tensor:
        torch.manual_seed(0)
        layer = nn.Linear(4, 4, bias=False)
        opt = vadam.Vadam(layer.parameters(), num_data=40, generator=torch.Generator().manual_seed(1), compile=compile)
        x = torch.randn(8, 4)

        def closure() -> Tensor:
            opt.zero_grad()
            loss = (layer(x) - 1).square().mean()
            loss.backward()
            return loss

        opt.step(closure)
        if what == "weight":
            layer.weight.data = layer.weight.data.t()
        else:
            opt.state[layer.weight]["s"].t_()
        for _ in range(3):
            opt.step(closure)
        return layer.weight.detach().clone()

    torch.testing.assert_close(run(True), run(False), rtol=1e-5, atol=1e-6)


def test_a_state_that_was_made_smaller_is_refused() -> None:
    layer = nn.Linear(5, 4, bias=False)
    opt = vadam.Vadam(layer.parameters(), num_data=40, compile=True)

    def closure() -> Tensor:
        opt.zero_grad()
        loss = layer(torch.ones(2, 5)).square().mean()
        loss.backward()
        return loss

    opt.step(closure)
    opt.state[layer.weight]["s"].resize_(2)
    with pytest.raises(RuntimeError, match="2 numbers belongs to 20 weights"):
        opt.step(closure)


def test_states_that_were_replaced_are_let_go() -> None:
    problem = Problem(torch.float32)
    opt = vadam.Vadam(problem.model.parameters(), num_data=40, compile=True)
    problem.step(opt, BY_NAME["Vadam"])
    old = []
    for _ in range(3):
        old += [weakref.ref(opt.state[p]["s"]) for p in problem.model.parameters()]
        opt.load_state_dict(copy.deepcopy(opt.state_dict()))
        problem.step(opt, BY_NAME["Vadam"])
        for p in problem.model.parameters():
            old.append(weakref.ref(opt.state[p]["s"]))
            opt.state[p]["s"] = opt.state[p]["s"].clone()
        problem.step(opt, BY_NAME["Vadam"])
    gc.collect()
    assert not any(ref() is not None for ref in old)


def test_numbers_of_the_state_in_half_precision() -> None:
    problem = Problem(torch.float32)
    opt = vadam.Vadam(problem.model.parameters(), num_data=40, compile=True)
    problem.step(opt, BY_NAME["Vadam"])
    for p in problem.model.parameters():
        opt.state[p]["gamma1_t"] = opt.state[p]["gamma1_t"].bfloat16()
    problem.step(opt, BY_NAME["Vadam"])
    assert all(opt.state[p]["gamma1_t"].dtype == torch.bfloat16 for p in problem.model.parameters())
