"""Regression tests for misuse that lost the mean, a sample, or the scale of an estimate."""

import copy
import gc
import signal
import sys
from itertools import permutations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

import vadam
from specs import BY_NAME, SPECS, Problem, Spec, same, snapshot

LOOPS = [s for s in SPECS if "attach" in s.ways]


@pytest.mark.parametrize(
    ("way", "samples", "dtype"),
    [("closure", 3, torch.float32), ("context", 1, torch.float64), ("attach", 1, torch.float64)],
    ids=str,
)
@pytest.mark.parametrize("part", range(30))
def test_an_interrupt_at_any_line_leaves_the_mean(way: str, samples: int, dtype: torch.dtype, part: int) -> None:
    """A signal at some line of the optimizer's own code: the weights are a mean afterwards, and training goes on.

    It is Ctrl-C, or one by which schedulers ask for a checkpoint, or one of a time limit.
    """
    number = (signal.SIGINT, signal.SIGUSR1, signal.SIGALRM)[part % 3]
    spec, problem = BY_NAME["Vadam"], Problem(dtype)
    opt = spec.make(problem.model.parameters(), lr=0.0, samples=samples)
    if way == "attach":
        opt.attach(problem.model)
    problem.step(opt, spec, way)
    weights, lines, moment = problem.weights(), 0, -1

    def trace(frame, event, arg):
        nonlocal lines
        if "/vadam/" not in frame.f_code.co_filename:
            return None
        if event == "line":
            lines += 1
            if lines == moment:
                signal.raise_signal(number)
        return trace

    def traced_step() -> None:
        nonlocal lines
        lines = 0
        gc.collect()  # no finalizer of another optimizer runs meanwhile
        before = signal.signal(number, signal.default_int_handler)
        sys.settrace(trace)
        try:
            problem.step(opt, spec, way)
        finally:
            sys.settrace(None)
            signal.signal(number, before)

    traced_step()
    moment = 1 + lines * part // 30
    with pytest.raises(KeyboardInterrupt):
        traced_step()
    if way == "attach":
        opt.eval()  # the sample lasts until step(): there was none
    assert same(problem.weights(), weights)
    problem.step(opt, spec, way)
    assert same(problem.weights(), weights)


@pytest.mark.parametrize("inner", ["closure", "plain"])
def test_a_step_inside_a_closure_is_refused(inner: str) -> None:
    for spec in SPECS:
        problem = Problem()
        opt = spec.make_for(problem.model)
        weights = problem.weights()

        def outer(problem=problem, opt=opt, spec=spec):
            closure = problem.closure(opt, spec)
            opt.step(closure if inner == "closure" or not opt.has_loop else None)
            return closure()

        with pytest.raises(RuntimeError, match="steps cannot be nested"):
            opt.step(outer)
        assert same(problem.weights(), weights)


@pytest.mark.parametrize("spec", LOOPS, ids=str)
@pytest.mark.parametrize("clear", ["opt", "model", "zeros"])
@pytest.mark.parametrize("way", ["context", "attach"])
def test_a_batch_that_is_left_out_leaves_no_trace(spec: Spec, clear: str, way: str) -> None:
    results = []
    for leave_out in (False, True):
        problem = Problem()
        opt = spec.make_for(problem.model, generator=torch.Generator().manual_seed(0))
        if way == "attach":
            opt.attach(problem.model)
        state = opt.generator.get_state()
        for attempt in range(2 if leave_out else 1):
            if clear == "opt":
                opt.zero_grad()
            else:
                problem.model.zero_grad(set_to_none=clear == "model")
            if way == "context":
                opt.generator.set_state(state)
                with opt.sampled_params():
                    problem.loss().backward()
            else:
                problem.loss().backward()
            if leave_out and attempt == 0:
                continue
            opt.step()
        results.append(problem.weights() + snapshot(opt))
    if way == "attach" and spec.records_squares_outside_gradients and clear != "opt":
        return  # the squares are cleared with opt.zero_grad(): see the gotchas
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["VOGN", "Vadam", "IVON"])
@pytest.mark.parametrize("samples", [1, 2])
def test_clipping_inside_a_closure_scales_the_curvature(name: str, samples: int) -> None:
    spec, factors, results = BY_NAME[name], [], []
    for clip in (True, False):
        problem = Problem()
        opt = spec.make_for(problem.model, samples=samples, generator=torch.Generator().manual_seed(0))
        queue = iter(factors)

        def closure(problem=problem, opt=opt, clip=clip, queue=queue):
            opt.zero_grad()
            loss = problem.loss() if clip else problem.loss() * next(queue)
            loss.backward()
            if clip:
                factors.append(float(0.05 / (clip_grad_norm_(problem.model.parameters(), 0.05) + 1e-6)))
            return loss

        opt.step(closure)
        results.append(problem.weights() + snapshot(opt))
    assert max(factors) < 1
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("spec", [s for s in SPECS if s.has_prior], ids=str)
def test_no_prior_at_all_for_points_is_refused(spec: Spec) -> None:
    problem = Problem()
    points = {"params": problem.model[2].parameters(), "deterministic": True, "prior_precision": 0.0}
    groups = [{"params": problem.model[0].parameters()}, points]
    with pytest.raises(
        ValueError, match=r"prior_precision must be above 0 in a deterministic group|would never be trained"
    ):
        spec.make(groups)


@pytest.mark.parametrize("name", ["VON-exact", "VON-hutchinson", "FullVON"])
def test_a_curvature_that_is_not_finite_is_refused(name: str) -> None:
    x = torch.tensor([[1.0, 0.0], [2.0, 0.0]], dtype=torch.float64)
    w = nn.Parameter(torch.ones(2, dtype=torch.float64))
    opt = BY_NAME[name].make([w])
    with pytest.raises(FloatingPointError, match="not finite"):
        opt.step(lambda: (x * w).abs().pow(1.5).mean())
    assert torch.equal(w.detach(), torch.ones(2, dtype=torch.float64))


@pytest.mark.parametrize("gradient", [1e-4, 300.0])
def test_float16_gradients_are_squared_in_float32(gradient: float) -> None:
    p = nn.Parameter(torch.zeros(2, dtype=torch.float16))
    opt = vadam.Vadam([p], num_data=100, betas=(0.9, 0.5))

    def closure():
        opt.zero_grad()
        loss = (p * gradient).sum()
        loss.backward()
        return loss

    opt.step(closure)
    expected = 0.5 * float(torch.tensor(gradient).half()) ** 2
    torch.testing.assert_close(opt.state[p]["s"], torch.full((2,), expected), rtol=1e-3, atol=0)


def test_what_a_closure_may_return() -> None:
    problem = Problem()
    opt = BY_NAME["Vadam"].make(problem.model.parameters())
    before = problem.weights()

    def silent():
        opt.zero_grad()
        problem.loss().backward()

    assert opt.step(silent) is None
    assert not same(problem.weights(), before)
    before = problem.weights()
    assert opt.step(lambda: None) is None  # a trainer that leaves a batch out
    assert opt.skipped_steps == 1

    def pair():
        silent()
        return 1.0, 2.0

    with pytest.raises(TypeError, match="returned a tuple"):
        opt.step(pair)
    assert same(problem.weights(), before)


def test_a_failed_backward_pass_does_not_end_the_counting_of_samples() -> None:
    problem = Problem()
    opt = BY_NAME["Vadam"].make(problem.model.parameters(), samples=2).attach(problem.model)
    handle = problem.model[0].weight.register_hook(lambda grad: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        problem.loss().backward()
    handle.remove()
    opt.eval()
    opt.zero_grad()
    before = problem.weights()
    problem.loss().backward()
    with pytest.raises(RuntimeError, match="samples=2, but 1 forward and backward passes"):
        opt.step()
    opt.zero_grad()
    for _ in range(2):
        problem.loss().backward()
    opt.step()
    assert not same(problem.weights(), before)


@pytest.mark.parametrize("spec", LOOPS, ids=str)
def test_saving_an_attached_model_saves_the_mean(spec: Spec) -> None:
    problem = Problem()
    opt = spec.make(problem.model.parameters()).attach(problem.model)
    mean = problem.weights()
    problem.loss().backward()
    assert not same(problem.weights(), mean)  # the sample is open
    assert same(list(problem.model.state_dict().values()), mean)
    opt.step()
    assert same(list(problem.model.state_dict().values()), problem.weights())


def test_a_discriminator_frozen_for_the_generators_step() -> None:
    generator, discriminator = nn.Linear(2, 2), nn.Linear(2, 1)
    g = vadam.Vadam(generator.parameters(), num_data=9).attach(generator)
    d = vadam.Vadam(discriminator.parameters(), num_data=9).attach(discriminator)
    for _ in range(2):
        before = [p.detach().clone() for p in (*generator.parameters(), *discriminator.parameters())]
        discriminator.requires_grad_(False)
        g.zero_grad()
        discriminator(generator(torch.randn(8, 2))).mean().backward()
        g.step()
        assert same([p.detach() for p in discriminator.parameters()], before[2:])
        assert not any(torch.equal(p, old) for p, old in zip(generator.parameters(), before[:2], strict=True))
        discriminator.requires_grad_(True)
        d.zero_grad()
        discriminator(torch.randn(8, 2)).square().mean().backward()
        d.step()
        assert not any(torch.equal(p, old) for p, old in zip(discriminator.parameters(), before[2:], strict=True))


def test_attaching_a_part_is_refused() -> None:
    problem = Problem()
    opt = BY_NAME["IVON"].make(problem.model.parameters())
    with pytest.raises(ValueError, match="the module that owns them all"):
        opt.attach(problem.model[0])


def test_too_few_samples_in_the_loop() -> None:
    problem = Problem()
    opt = BY_NAME["Vadam"].make(problem.model.parameters(), samples=4).attach(problem.model)
    problem.loss().backward()
    with pytest.raises(RuntimeError, match=r"samples=4, but 1 forward and backward passes"):
        opt.step()


@pytest.mark.parametrize("name", ["Vadam", "VOGN", "IVON"])
def test_micro_batches_in_a_loop_with_several_samples_are_refused(name: str) -> None:
    """Four passes of half the loss were four samples, and the gradient was half as large as it should be."""
    problem = Problem()
    opt = BY_NAME[name].make(problem.model.parameters(), samples=2).attach(problem.model)
    before = problem.weights()
    for _ in range(4):
        (problem.loss() / 2).backward()
    with pytest.raises(RuntimeError, match=r"samples=2, but 4 forward and backward passes .* accumulate micro-batches"):
        opt.step()
    assert same(problem.weights(), before)


def test_pairs_survive_a_plain_draw() -> None:
    problem = Problem()
    opt = BY_NAME["Vadam"].make(problem.model.parameters(), samples=2, antithetic=True)
    mean = problem.weights()
    with opt.sampled_params(), torch.no_grad():
        problem.loss()
    seen = []
    for _ in range(2):
        with opt.sampled_params():
            seen.append(problem.weights())
            problem.loss().backward()
    torch.testing.assert_close((seen[0][0] + seen[1][0]) / 2, mean[0], rtol=0, atol=1e-14)
    opt.step()
    assert not same(problem.weights(), mean)


def test_inference_mode_does_not_poison_the_state() -> None:
    problem, plain = Problem(), Problem()
    spec = BY_NAME["Vadam"]
    opt, reference = (spec.make(p.model.parameters()) for p in (problem, plain))
    with torch.inference_mode():
        opt.posterior()
        with opt.sampled_params():
            problem.loss()
    for own, its in ((opt, problem), (reference, plain)):
        own.generator = torch.Generator().manual_seed(0)
        its.step(own, spec)
    assert same(problem.weights() + snapshot(opt), plain.weights() + snapshot(reference))
    assert not any(x.is_inference() for state in opt.state.values() for x in state.values() if isinstance(x, Tensor))


def test_checkpoints_of_relatives_are_refused() -> None:
    saved = {}
    for spec in SPECS:
        problem = Problem()
        opt = spec.make_for(problem.model)
        problem.step(opt, spec)
        saved[spec.name] = copy.deepcopy(opt.state_dict())
    one_row_each = {spec.build: spec for spec in SPECS}
    for a, b in permutations(one_row_each.values(), 2):
        with pytest.raises(ValueError, match=f"is of a {a.build.__name__}, not of a {b.build.__name__}"):
            b.make(Problem().model.parameters()).load_state_dict(saved[a.name])


def test_arguments_that_change_in_the_middle() -> None:
    problem, spec = Problem(), BY_NAME["VOGN"]
    opt = spec.make_for(problem.model)
    problem.step(opt, spec)
    weight = problem.model[0].weight
    assert "u" not in opt.state[weight]
    opt.param_groups[0]["momentum"] = 0.9  # as a scheduler with cycle_momentum does
    problem.step(opt, spec)
    assert opt.state[weight]["u"].abs().max() > 0
    opt.param_groups[0]["momentum"] = 0.0
    u, before = opt.state[weight]["u"].clone(), problem.weights()
    problem.step(opt, spec)
    assert torch.equal(opt.state[weight]["u"], u)  # not used, and kept
    assert not same(problem.weights(), before)
    state = snapshot(opt)
    opt.load_state_dict(opt.state_dict())
    assert same(snapshot(opt), state)


@pytest.mark.parametrize("nonfinite", ["raise", "skip"])
def test_a_change_of_arguments_that_makes_a_precision_negative_is_refused_by_name(nonfinite: str) -> None:
    """Samples of a negative precision are NaN, so that the gradient would be blamed, or every later step skipped."""
    problem = Problem()
    opt = vadam.VON(problem.model.parameters(), num_data=100, prior_precision=10.0, nonfinite=nonfinite)
    problem.step(opt, BY_NAME["VON"])
    opt.state[problem.model[0].weight]["s"].fill_(-0.09)  # 100 · (-0.09) + 10 = 1
    problem.step(opt, BY_NAME["VON"])
    before = problem.weights()
    opt.param_groups[0]["num_data"] = 1000
    with pytest.raises(FloatingPointError, match=r"precision of parameter '0' .* is not positive.*num_data"):
        problem.step(opt, BY_NAME["VON"])
    assert same(problem.weights(), before)
    opt.param_groups[0]["num_data"] = 100
    problem.step(opt, BY_NAME["VON"])
    assert opt.skipped_steps == 0


def test_full_von_says_what_it_cannot_do() -> None:
    problem, spec = Problem(), BY_NAME["FullVON"]
    opt = spec.make(problem.model.parameters())
    problem.step(opt, spec)
    problem.model[2].bias.requires_grad_(False)
    with pytest.raises(RuntimeError, match="learned the covariance of 21 weights, but now there are 20"):
        problem.step(opt, spec)
    with pytest.raises(ValueError, match="must share a device and a dtype"):
        spec.make([nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2, dtype=torch.float64))])


def test_errors_of_the_constructor() -> None:
    params = list(Problem().model.parameters())
    with pytest.raises(TypeError, match=r"VON has no argument 'weight_decay': the prior is prior_precision"):
        vadam.VON(params, num_data=1, weight_decay=0.1)
    with pytest.raises(TypeError, match=r"generator must be a torch.Generator, got 42"):
        vadam.Vadam(params, num_data=1, generator=42)
    with pytest.raises(ValueError, match=r"tau=0.0 would sample weights of infinite variance"):
        vadam.Vadam(params, num_data=1, tau=0.0, init_precision="prior")
    with pytest.raises(ValueError, match=r"deterministic must be True or False, got 'no'"):
        vadam.Vadam([{"params": params, "deterministic": "no"}], num_data=1)
    with pytest.raises(ValueError, match="would never be trained"):
        vadam.VON([{"params": params, "deterministic": True}], num_data=1, curvature="score")
    with pytest.raises(ValueError, match="more than limit=5 allows"):
        vadam.VON(params, num_data=1, curvature="exact", limit=5)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch's own, when its compiler is imported
def test_names_without_the_compilers_prefix() -> None:
    problem = Problem()
    compiled = torch.compile(problem.model)
    opt = vadam.Vadam(problem.model.parameters(), num_data=40).attach(compiled)
    assert set(opt.posterior().mean) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    opt.detach()
    assert set(opt.posterior(compiled).mean) == {"0.weight", "0.bias", "2.weight", "2.bias"}


@pytest.mark.parametrize("value", ["0.5", torch.ones(2)], ids=["words", "two numbers"])
def test_score_closure_must_return_a_number(value: object) -> None:
    w = torch.nn.Parameter(torch.ones(3))
    opt = vadam.VON([w], num_data=1, curvature="score")
    with pytest.raises(TypeError, match="returns the objective as one number"):
        opt.step(lambda: value)
    assert torch.equal(w, torch.ones(3))


def test_score_closure_without_a_value_leaves_the_batch_out() -> None:
    w = torch.nn.Parameter(torch.ones(3))
    opt = vadam.VON([w], num_data=1, curvature="score", samples=2)
    assert opt.step(lambda: None) is None
    assert opt.skipped_steps == 1
    assert torch.equal(w, torch.ones(3))


@pytest.mark.parametrize("scales", [(1e25,), (1.0, 1e25), (1e25, 1.0)], ids=str)
def test_squares_that_overflow_are_refused(scales: tuple[float, ...]) -> None:
    """Squares may overflow where the examples cancel in the gradient, in any sample."""
    model, x = torch.nn.Linear(3, 1, bias=False), torch.tensor([[1.0], [-1.0]]).expand(2, 3)
    opt = vadam.VOGN(model.parameters(), num_data=10, samples=len(scales)).attach(model)
    before, left = model.weight.detach().clone(), iter(scales)

    def closure() -> torch.Tensor:
        opt.zero_grad()
        loss = next(left) * model(x).mean()
        loss.backward()
        return loss

    with pytest.raises(FloatingPointError, match="the curvature of parameter"):
        opt.step(closure)
    assert torch.equal(model.weight, before)


@pytest.mark.parametrize("way", ["closure", "context"])
@pytest.mark.parametrize("name", ["Vadam", "Vprop", "VadaGrad"])
def test_squares_that_overflow_where_samples_cancel_are_refused(name: str, way: str) -> None:
    w = nn.Parameter(torch.ones(3))
    opt = BY_NAME[name].make([w], samples=3)
    precision, scales = opt.posterior().precision["0"], iter((1e20, -1e20, 1.0))

    def closure() -> None:
        (next(scales) * w.sum()).backward()

    def step() -> None:
        if way == "closure":
            opt.step(closure)
            return
        for _ in range(3):
            with opt.sampled_params():
                closure()
        opt.step()

    with pytest.raises(FloatingPointError, match="the root mean square gradient of parameter '0'"):
        step()
    assert torch.equal(w.detach(), torch.ones(3))
    assert torch.equal(opt.posterior().precision["0"], precision)


@pytest.mark.parametrize("layer", [nn.Embedding, nn.EmbeddingBag])
def test_sampled_weights_that_a_layer_rescales_are_refused(layer: type[nn.Module]) -> None:
    """With ``max_norm`` a forward pass writes to the sample, and the mean would never be rescaled."""
    torch.manual_seed(0)
    model = nn.Sequential(layer(5, 3, max_norm=1.0), nn.Linear(3, 1))
    with torch.no_grad():
        model[0].weight.mul_(10)
    with pytest.raises(ValueError, match=r"'0' has max_norm=1.0 and rescales its weights"):
        vadam.Vadam(model.parameters(), num_data=10).attach(model)
    groups = [{"params": model[0].parameters(), "deterministic": True}, {"params": model[1].parameters()}]
    opt = vadam.Vadam(groups, num_data=10).attach(model)
    model(torch.tensor([[0, 1]])).square().mean().backward()
    opt.step()
    assert (model[0].weight[:2].norm(dim=1) < 1.01).all()


@pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")  # by torch, for torch.compile
def test_a_scripted_module_is_refused_in_words() -> None:
    for scripted in (torch.jit.script(nn.Linear(3, 1)), torch.jit.trace(nn.Linear(3, 1), torch.zeros(1, 3))):
        with pytest.raises(TypeError, match="takes no hooks: attach the module that it was made from"):
            vadam.Vadam(scripted.parameters(), num_data=10).attach(scripted)


def test_a_copied_optimizer_says_that_it_is_not_attached() -> None:
    problem = Problem()
    opt = BY_NAME["Vadam"].make(problem.model.parameters()).attach(problem.model)
    model, other = copy.deepcopy((problem.model, opt))
    model(torch.ones(2, model[0].in_features, dtype=model[0].weight.dtype)).square().mean().backward()
    with pytest.raises(RuntimeError, match="a copied or unpickled optimizer is not attached"):
        other.step()
