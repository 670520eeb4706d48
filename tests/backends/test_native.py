"""The native loops: every kind of memory, every way of use, what others do to weights and state, and what an interruption leaves."""

import copy
import gc
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vadam
from specs import BY_NAME, Problem, snapshot
from vadam import backends

pytest.importorskip("llvmlite")


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


@pytest.mark.usefixtures("same_noise")
@pytest.mark.parametrize("way", ["closure", "context", "loop"])
def test_every_kind_of_memory(way: str) -> None:
    results = []
    for backend in ("plain", "native"):
        params = kinds_of_memory()
        opt = vadam.Vadam(params, lr=0.01, num_data=100, backend=backend, generator=torch.Generator().manual_seed(1))

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


@pytest.mark.parametrize("backend", ["plain", "native"])
def test_the_same_training_for_any_number_of_threads(backend: str) -> None:
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            w = nn.Parameter(torch.linspace(-1, 1, 200_003))
            opt = vadam.Vadam([w], num_data=10, backend=backend, generator=torch.Generator().manual_seed(0))
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


@pytest.mark.parametrize("backend", ["plain", "native"])
def test_norms(backend: str) -> None:
    run = backends.choose(backend)
    tensors = [torch.randn(n) for n in (1, 4096, 5, 4097, 100_000)]
    assert run.norms(tensors).tolist() == pytest.approx([float(x.double().norm()) for x in tensors], rel=1e-5)
    assert run.norms([torch.tensor([1.0, torch.inf]), torch.ones(4)]).tolist() == [torch.inf, 2.0]
    assert np.isnan(float(run.norms([torch.tensor([1.0, torch.nan])])[0]))
    assert run.norms([torch.ones(4), torch.empty(0), torch.ones(9)]).tolist() == [2.0, 0.0, 3.0]
    mixed = [torch.ones(4, dtype=torch.float64), torch.ones(2, 2).T]
    assert run.norms(mixed).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("backend", ["plain", "native"])
@pytest.mark.parametrize("store_mean", [True, False])
def test_parameters_without_weights(backend: str, store_mean: bool) -> None:
    """An empty parameter alone: no norm, no noise, no tile."""
    w = nn.Parameter(torch.empty(0, 3))
    opt = vadam.Vadam([w], num_data=10, backend=backend, store_mean=store_mean)
    for _ in range(2):
        opt.zero_grad()
        with opt.sampled_params():
            w.sum().backward()
        opt.step()
    assert opt.posterior().precision["0"].shape == (0, 3)


@pytest.mark.parametrize("backend", ["plain", "native"])
def test_one_infinite_gradient_changes_nothing(backend: str) -> None:
    w = nn.Parameter(torch.ones(10_000))
    opt = vadam.Vadam([w], num_data=10, backend=backend)
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
opt = vadam.Vadam([w], lr=0.0, num_data=1, prior_precision=1.0, backend={backend!r})

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


@pytest.mark.parametrize("backend", ["plain", "native"])
def test_interrupted_at_any_moment_the_mean_comes_back(backend: str) -> None:
    """An interrupt at random moments of drawing, restoring and updating: the weights are a mean, old or new, never a sample."""
    subprocess.run([sys.executable, "-c", _INTERRUPTED.format(backend=backend)], check=True, timeout=120)


_WITHOUT_LLVMLITE = """
import sys

sys.modules["llvmlite"] = None  # as if it were not installed
import torch
import vadam
from vadam.backends.plain import Plain

assert type(vadam.backends.choose("auto")) is Plain
w = torch.nn.Parameter(torch.ones(3))
with vadam.Vadam([w], num_data=1).sampled_params():
    assert not torch.equal(w, torch.ones(3))
try:
    with vadam.Vadam([w], num_data=1, backend="native").sampled_params():
        pass
except ImportError as error:
    print(error)
"""


def test_without_llvmlite_torch_computes() -> None:
    result = subprocess.run([sys.executable, "-c", _WITHOUT_LLVMLITE], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "backend='native' needs llvmlite: pip install llvmlite\n"


@pytest.mark.usefixtures("same_noise")
def test_momentum_switched_on_in_the_middle() -> None:
    """The packs of the last step are not those of this one: the rule is another."""
    results = []
    for backend in ("plain", "native"):
        problem = Problem(torch.float32)
        spec = BY_NAME["VOGN"]
        opt = spec.make_for(problem.model, generator=torch.Generator().manual_seed(1), backend=backend)
        problem.step(opt, spec)
        for group in opt.param_groups:
            group["momentum"] = 0.9
        for _ in range(2):
            problem.step(opt, spec)
        results.append(problem.weights())
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain, rtol=2e-4, atol=2e-5)


def linear(backend: str, inputs: int = 5, outputs: int = 1, **options: object) -> tuple[nn.Linear, vadam.Vadam]:
    model = nn.Linear(inputs, outputs)
    return model, vadam.Vadam(model.parameters(), lr=0.01, num_data=32, backend=backend, **options)  # type: ignore[arg-type]


def step(model: nn.Module, opt: vadam.Vadam) -> None:
    def closure() -> Tensor:
        opt.zero_grad()
        loss = model(torch.ones(4, 5)).square().mean()
        loss.backward()
        return loss

    opt.step(closure)


@pytest.mark.parametrize("backend", ["plain", "native"])
@pytest.mark.parametrize("size", [3, 9])
def test_the_state_of_another_model_is_refused(size: int, backend: str) -> None:
    (small, opt), (other, another) = linear(backend, outputs=6), linear(backend, outputs=size)
    step(small, opt)
    with pytest.raises(ValueError, match="this checkpoint is of another model"):
        another.load_state_dict(opt.state_dict())
    step(other, another)


@pytest.mark.parametrize("backend", ["plain", "native"])
@pytest.mark.parametrize("rows", [3, 4000])
def test_a_parameter_that_was_given_other_data_is_refused(rows: int, backend: str) -> None:
    model, opt = linear(backend, outputs=2000)
    step(model, opt)
    model.weight.data = torch.ones(rows, 5)
    model.bias.data = torch.ones(rows)
    with pytest.raises(RuntimeError, match="was a parameter given other data"):
        step(model, opt)


@pytest.mark.parametrize("backend", ["plain", "native"])
def test_the_default_device_is_not_that_of_the_weights(backend: str) -> None:
    model, opt = linear(backend)
    step(model, opt)
    before = torch.get_default_device()
    inputs, weight = torch.ones(4, 5), model.weight.detach().clone()
    try:
        torch.set_default_device("meta")
        with opt.sampled_params():
            model(inputs).sum().backward()
        opt.step()
        post = opt.posterior(model)
        assert post.kl().isfinite()
        assert vadam.predict(model, post, inputs, likelihood=vadam.Gaussian(1.0)).std.isfinite().all()
        assert vadam.MeanFieldGaussian.merge([post, post]).symmetric_kl(post).isfinite()
    finally:
        torch.set_default_device(before)
    assert model.weight.device.type == "cpu"
    assert {x.device.type for x in opt.state[model.weight].values() if isinstance(x, Tensor)} == {"cpu"}
    assert not torch.equal(model.weight, weight)


@pytest.mark.usefixtures("same_noise")
def test_gradients_that_are_not_what_lies_in_memory() -> None:
    def one_step(of: list[Tensor], backend: str) -> Tensor:
        w = nn.Parameter(torch.ones(6))
        opt = vadam.Vadam([w], lr=0.1, num_data=32, backend=backend, generator=torch.Generator().manual_seed(0))
        for g in of:
            with opt.sampled_params():
                w.grad = g
            opt.step()
            w.grad = None
        return w.detach()

    grads = [torch._neg_view(torch.arange(6.0)), torch._efficientzerotensor(6)]
    torch.testing.assert_close(one_step(grads, "native"), one_step(grads, "plain"))


@pytest.mark.parametrize("backend", ["plain", "native"])
def test_autograd_notices_that_the_weights_have_changed(backend: str) -> None:
    model, opt = linear(backend)
    inputs = torch.ones(4, 5, requires_grad=True)
    out = model(inputs).square().mean()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"), opt.sampled_params():
        out.backward()


@pytest.mark.parametrize("backend", ["plain", "native"])
@pytest.mark.parametrize("store_mean", [True, False])
def test_parameters_that_share_memory_find_their_mean_again(backend: str, store_mean: bool) -> None:
    a, b = nn.Parameter(torch.ones(8)), nn.Parameter(torch.zeros(8))
    b.data = a.data
    opt = vadam.Vadam([a, b], num_data=1, backend=backend, store_mean=store_mean)
    with opt.sampled_params():
        assert not torch.equal(a, torch.ones(8))
    torch.testing.assert_close(a.detach(), torch.ones(8), rtol=0, atol=0 if store_mean else 1e-6)


_MIXED = """
import os, signal
import torch
import vadam
from vadam.backends.memory import Call

signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background ignores it

{params}
means = [p.detach().clone() for p in params]
opt = vadam.Vadam(params, lr=0.0, num_data=1, backend="native")
run = Call.run
calls = []

def interrupted(self, *arguments, **options):
    run(self, *arguments, **options)
    calls.append(1)
    if len(calls) == {when}:
        os.kill(os.getpid(), signal.SIGINT)

for p in params:
    p.grad = torch.zeros_like(p)
for _ in range(2):
    calls.clear()
    Call.run = interrupted if _ else run
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
assert len(calls) >= {when}
assert all(torch.allclose(p.float(), mean.float(), atol=1e-5) for p, mean in zip(params, means)), "not the mean"
"""
CHANNELS_LAST = "params = [torch.nn.Parameter(torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last))]"
TWO_KINDS = "params = [torch.nn.Parameter(torch.ones(300)), torch.nn.Parameter(torch.ones(300, dtype=torch.bfloat16))]"


@pytest.mark.parametrize("params", [CHANNELS_LAST, TWO_KINDS], ids=["channels last", "two kinds"])
@pytest.mark.parametrize("when", [1, 2])
def test_interrupted_behind_a_native_call_the_mean_comes_back(params: str, when: int) -> None:
    script = _MIXED.format(params=params, when=when)
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("backend", ["plain", "native"])
@pytest.mark.parametrize("where", ["first_above", "update"])
def test_an_error_inside_a_step_leaves_the_mean(where: str, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the sample's end and the update the weights may still hold the sample."""
    w = nn.Parameter(torch.ones(50))
    opt = vadam.Vadam([w], lr=0.1, num_data=1, backend=backend)
    opt.train()
    w.grad = torch.ones(50)
    monkeypatch.setattr(type(vadam.backends.choose(backend)), where, _interrupted)
    with pytest.raises(KeyboardInterrupt):
        opt.step()
    assert torch.equal(w, torch.ones(50))


@pytest.mark.parametrize("backend", ["plain", "native"])
def test_an_error_while_recorded_curvatures_are_taken_leaves_the_mean(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = nn.Linear(50, 1)
    mean = model.weight.detach().clone()
    opt = vadam.VOGN(model.parameters(), num_data=1, backend=backend).attach(model)
    model(torch.ones(3, 50)).mean().backward()
    assert not torch.equal(model.weight, mean)
    monkeypatch.setattr(vadam.curvature.PerExampleSquares, "take", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        opt.step()
    assert torch.equal(model.weight, mean)


def changed(opt: vadam.Vadam, change: str) -> None:
    """Change an optimizer's state or parameters between two steps, as other code may do."""
    for group in opt.param_groups:
        for p in group["params"]:
            state = opt.state[p]
            if change == "other tensors":
                opt.state[p] = {name: x * (1.5 if isinstance(x, Tensor) else 0.5) for name, x in state.items()}
            elif change == "other data":
                state["s"].data = state["s"].data * 2
            elif change == "moved":
                for x in (p, *state.values()):
                    if isinstance(x, Tensor):
                        x.data = x.data.clone()
            elif change == "numbers":
                state["gamma1_t"] *= 0.5
            elif change == "numbers of one":
                state["gamma2_t"] *= 0.5
                break
            elif change == "frozen":
                p.requires_grad_(p.ndim == 1)
            elif change == "thawed":
                p.requires_grad_(True)
            elif change == "other weights":
                p.data = (p.data * 2).mT.contiguous().mT if p.ndim > 1 else p.data * 2


@pytest.mark.usefixtures("same_noise")
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
def test_cached_values_are_checked_at_every_step(changes: list[str]) -> None:
    def run(backend: str) -> list[Tensor]:
        problem = Problem(torch.float32)
        opt = vadam.Vadam(
            problem.model.parameters(), num_data=40, generator=torch.Generator().manual_seed(1), backend=backend
        )
        for change in ("nothing", "nothing", *changes, "nothing"):
            changed(opt, change)
            for _ in range(2):
                problem.step(opt, BY_NAME["Vadam"])
        return [p.detach().clone() for p in problem.model.parameters()] + snapshot(opt)

    for plain, native in zip(run("plain"), run("native"), strict=True):
        torch.testing.assert_close(native, plain, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("backend", ["plain", "native"])
def test_two_optimizers_of_one_shape_in_two_threads(backend: str) -> None:
    """A native call lets the other thread go on: what it points to must be its own."""

    def run(seed: int) -> list[Tensor]:
        with torch.random.fork_rng():
            model = nn.Linear(300, 200)
            generator = torch.Generator().manual_seed(seed)
            with torch.no_grad():
                for p in model.parameters():
                    p.normal_(generator=generator)
        opt = vadam.Vadam(model.parameters(), num_data=40, generator=generator, backend=backend)
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


@pytest.mark.usefixtures("same_noise")
@pytest.mark.parametrize("what", ["weight", "state"])
def test_memory_that_is_read_in_another_order(what: str) -> None:
    """A tensor at the same address with other strides is noticed."""

    def run(backend: str) -> Tensor:
        torch.manual_seed(0)
        layer = nn.Linear(4, 4, bias=False)
        opt = vadam.Vadam(layer.parameters(), num_data=40, generator=torch.Generator().manual_seed(1), backend=backend)
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

    torch.testing.assert_close(run("native"), run("plain"), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("way", ["context", "paused"])
@pytest.mark.parametrize("store_mean", [True, False])
def test_memory_whose_order_changes_inside_a_sample(way: str, store_mean: bool) -> None:
    """Noise belongs to weights, not to places in memory: sample, mean and ĝ∘ε/σ are those of the draw."""
    images, weight = torch.randn(4, 3, 5, 5), nn.Parameter(torch.randn(4, 3, 5, 5))
    opt = vadam.IVON([weight], betas=(0.9, 0.99), num_data=100, backend="native", store_mean=store_mean)
    mean, sigma = weight.detach().clone(), opt.posterior().stddev["0"]
    with opt.sampled_params() if way == "context" else nullcontext():
        opt.train() if way == "paused" else None
        theta = weight.detach().clone()
        opt.eval() if way == "paused" else None
        weight.data = weight.data.to(memory_format=torch.channels_last)
        opt.train() if way == "paused" else None
        torch.testing.assert_close(weight.detach(), theta)
        (weight * images).sum().backward()
    opt.eval()
    torch.testing.assert_close(weight.detach(), mean)
    opt.step()
    h = images * (theta - mean) / sigma**2
    s = 0.99 + 0.01 * h + 0.5 * 0.01**2 * (1 - h) ** 2 / (1 + 1 / 100)
    torch.testing.assert_close(opt.state[weight]["s"], s, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backend", ["plain", "native"])
def test_a_state_that_was_made_smaller_is_refused(backend: str) -> None:
    layer = nn.Linear(5, 4, bias=False)
    opt = vadam.Vadam(layer.parameters(), num_data=40, backend=backend)

    def closure() -> Tensor:
        opt.zero_grad()
        loss = layer(torch.ones(2, 5)).square().mean()
        loss.backward()
        return loss

    opt.step(closure)
    opt.state[layer.weight]["s"].resize_(2)
    with pytest.raises(RuntimeError, match="2 numbers belongs to 20 weights"):
        opt.step(closure)


@pytest.mark.parametrize("backend", ["plain", "native"])
def test_states_that_were_replaced_are_let_go(backend: str) -> None:
    problem = Problem(torch.float32)
    opt = vadam.Vadam(problem.model.parameters(), num_data=40, backend=backend)
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


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("backend", ["plain", "native"])
def test_scalars_of_the_state_that_others_made_tensors(backend: str, dtype: torch.dtype) -> None:
    """Scalars that a checkpoint of another tool stores as tensors keep their values."""

    def run(*, tensors: bool) -> list[Tensor]:
        problem = Problem(torch.float32)
        generator = torch.Generator().manual_seed(1)
        opt = vadam.Vadam(problem.model.parameters(), num_data=40, backend=backend, generator=generator)
        problem.step(opt, BY_NAME["Vadam"])
        for p in problem.model.parameters():
            value = torch.tensor(opt.state[p]["gamma1_t"], dtype=dtype)
            opt.state[p]["gamma1_t"] = value if tensors else float(value)
        problem.step(opt, BY_NAME["Vadam"])
        return problem.weights()

    for ours, expected in zip(run(tensors=True), run(tensors=False), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=0)


COMPILED_TWICE = """
import gc, torch, vadam
from concurrent.futures import ThreadPoolExecutor
from vadam.backends import kernels
from vadam.rules import vadam as rule

for _ in range(3):  # a library is dropped, as where two threads have compiled the same at the same time
    kernels.squares.cache_clear()
    kernels.squares()
    gc.collect()

def train(seed):
    w = torch.nn.Parameter(torch.ones(50))
    opt = [vadam.Vadam, vadam.IVON, vadam.Vprop][seed % 3]([w], num_data=10, generator=torch.Generator().manual_seed(seed // 3))
    for _ in range(5):
        with opt.sampled_params():
            w.square().sum().backward()
        opt.step()
    return w.detach()

with ThreadPoolExecutor(6) as threads:
    together = [*threads.map(train, range(12))]
assert all(map(torch.equal, together, map(train, range(12))))
"""


def test_threads_that_take_their_first_steps_together_compile_safely() -> None:
    found = subprocess.run([sys.executable, "-c", COMPILED_TWICE], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
