"""Models that are more than layers: checkpointed, compiled, parametrized, tied. Each trains as the plain model with the same samples."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo.testing
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_, parametrizations, parametrize
from torch.utils.checkpoint import checkpoint

import vadam
from matrix import covers
from specs import SPECS, Spec, same, snapshot

WAYS = [pytest.param(spec, way, id=f"{spec}-{way}") for spec in SPECS for way in spec.ways]
SPEC = pytest.mark.parametrize("spec", SPECS, ids=str)
N = 20


def data() -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(7)
    x, y = torch.randn(N, 3, generator=g, dtype=torch.float64), torch.randn(N, 2, generator=g, dtype=torch.float64)
    return x.requires_grad_(), y  # reentrant checkpointing asks for an input that requires a gradient


def trained(
    build: Callable[[], nn.Module],
    spec: Spec,
    way: str = "closure",
    samples: int = 1,
    clip: float | None = None,
    steps: int = 3,
) -> tuple[nn.Module, vadam.VariationalOptimizer]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = build().double()
    x, y = data()
    opt = spec.make_for(model, samples=samples, num_data=N, generator=torch.Generator().manual_seed(1))
    if way == "attach":
        opt.attach(model)

    def loss() -> Tensor:
        value = (model(x) - y).square().mean()
        if spec.backward:
            value.backward()
            if clip is not None and way == "closure":
                clip_grad_norm_(model.parameters(), clip)
        return value

    def closure() -> Tensor:
        opt.zero_grad()
        return loss()

    for _ in range(steps):
        if way == "closure":
            opt.step(closure)
            continue
        opt.zero_grad()
        for _ in range(samples):
            if way == "context":
                with opt.sampled_params():
                    loss()
            else:
                loss()
        if clip is not None:
            clip_grad_norm_(model.parameters(), clip)
        opt.step()
    return model, opt


def agree(a: tuple[nn.Module, Any], b: tuple[nn.Module, Any], tolerance: float = 1e-10) -> None:
    ours, theirs = ([p.detach() for p in model.parameters()] + snapshot(opt) for model, opt in (a, b))
    for x, y in zip(ours, theirs, strict=True):
        torch.testing.assert_close(x, y, rtol=tolerance, atol=tolerance)


# Activation checkpointing -----------------------------------------------------------------------------------------------------


class Blocks(nn.Module):
    """Layers that are checkpointed: none, those in the middle, or all of them, so that no weight has its gradient outside."""

    def __init__(self, reentrant: bool | None = None, every: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            [nn.Linear(3, 6), nn.Sequential(nn.Linear(6, 6), nn.Tanh()), nn.Linear(6, 6), nn.Linear(6, 2)]
        )
        self.reentrant, self.every = reentrant, every

    def forward(self, x: Tensor) -> Tensor:
        for k, block in enumerate(self.blocks):
            skipped = self.reentrant is None or (k in (0, 3) and not self.every)
            x = block(x) if skipped else checkpoint(block, x, use_reentrant=self.reentrant)
        return x


@covers("activation checkpointing", "non-reentrant")
@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize(("spec", "way"), WAYS)
def test_checkpointing(spec: Spec, way: str, samples: int) -> None:
    """The recomputation sees the weights of the first computation, so the gradients are those of the plain model."""
    plain = trained(Blocks, spec, way, samples, clip=0.1)
    agree(trained(lambda: Blocks(False), spec, way, samples, clip=0.1), plain)


@covers("activation checkpointing", "reentrant")
@pytest.mark.parametrize("every", [False, True], ids=["some", "all"])
@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize(("spec", "way"), [p for p in WAYS if p.values[0].backward])
def test_reentrant_checkpointing(spec: Spec, way: str, samples: int, every: bool) -> None:
    """Backward passes inside the backward pass: none of them ends the sample."""
    plain = trained(Blocks, spec, way, samples, clip=0.1)
    agree(trained(lambda: Blocks(True, every), spec, way, samples, clip=0.1), plain)


@covers("activation checkpointing", "reentrant", refuses=True)
@pytest.mark.parametrize("spec", [s for s in SPECS if not s.backward and s.differentiable], ids=str)
def test_reentrant_checkpointing_has_no_second_derivatives(spec: Spec) -> None:
    with pytest.raises(RuntimeError, match="use_reentrant=True"):
        trained(lambda: Blocks(True), spec)


class Whole(nn.Module):
    def __init__(self, inner: nn.Module, reentrant: bool) -> None:
        super().__init__()
        self.inner, self.reentrant = inner, reentrant

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.inner, x, use_reentrant=self.reentrant)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_of_an_attached_model_from_outside(reentrant: bool) -> None:
    """Non-reentrant it is the plain run; reentrant, whose first pass is without gradients and so at the mean, is refused."""

    def weights(wrap: bool) -> list[Tensor]:
        torch.manual_seed(0)
        inner = nn.Linear(3, 2).double()
        opt = vadam.Vadam(inner.parameters(), num_data=N, generator=torch.Generator().manual_seed(0)).attach(inner)
        model = Whole(inner, reentrant) if wrap else inner
        x, y = data()
        for _ in range(2):
            opt.zero_grad()
            (model(x) - y).square().mean().backward()
            opt.step()
        return [p.detach().clone() for p in inner.parameters()]

    if reentrant:
        with pytest.raises(RuntimeError, match="use_reentrant=False"):
            weights(wrap=True)
    else:
        assert same(weights(wrap=True), weights(wrap=False))


# torch.compile ---------------------------------------------------------------------------------------------------------------------


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2))


@covers("torch.compile", "compiled model, every way of use")
@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace", "ignore:The .grad attribute of a Tensor")
@pytest.mark.parametrize(("spec", "way"), [p for p in WAYS if p.values[0].backward])
def test_compiled(spec: Spec, way: str) -> None:
    """Through the compiler's ahead-of-time autograd; nothing is compiled again, since weights change in place.

    The hooks of VOGN break the graph at every layer, and torch warns of what it finds there.
    """
    torch._dynamo.reset()
    graphs = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    agree(trained(lambda: torch.compile(mlp(), backend=graphs), spec, way), trained(mlp, spec, way))
    if not spec.needs_attach:
        assert graphs.frame_count == 1


@covers("torch.compile", "compiled model, every way of use", refuses=True)
@pytest.mark.parametrize("spec", [s for s in SPECS if not s.backward and s.differentiable], ids=str)
def test_compiled_models_have_no_second_derivatives(spec: Spec) -> None:
    torch._dynamo.reset()
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        trained(lambda: torch.compile(mlp(), backend="aot_eager"), spec)


def test_vogn_says_that_a_model_was_compiled_before_it_was_attached() -> None:
    torch._dynamo.reset()
    model, (x, y) = torch.compile(mlp().double(), backend="aot_eager"), data()
    model(x).sum().backward()
    opt = vadam.VOGN(model.parameters(), num_data=N).attach(model)
    opt.zero_grad()
    loss = (model(x) - y).square().mean()
    with pytest.raises(RuntimeError, match="or compiled"):
        loss.backward()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, when it loads its compiler
def test_compiled_by_inductor() -> None:
    spec = next(spec for spec in SPECS if spec.name == "Vadam")
    torch._dynamo.reset()
    agree(trained(lambda: torch.compile(mlp()), spec, "attach"), trained(mlp, spec, "attach"), 1e-9)


# Parametrizations and tied weights -----------------------------------------------------------------------------------------


class Halved(nn.Module):
    def forward(self, w: Tensor) -> Tensor:
        return w / 2

    def right_inverse(self, w: Tensor) -> Tensor:
        return 2 * w


class Direction(nn.Module):
    """A parametrization with rows of length one."""

    def forward(self, w: Tensor) -> Tensor:
        return w / w.norm(dim=1, keepdim=True)


def parametrized() -> nn.Module:
    model = mlp()
    parametrize.register_parametrization(model[0], "weight", Halved())
    parametrize.register_parametrization(model[2], "weight", Direction())
    return model


def weight_normed() -> nn.Module:
    model = mlp()
    parametrizations.weight_norm(model[2], "weight")
    return model


class ByHand(nn.Module):
    """A network with the same functions of the same parameters, in the same order, without ``parametrize``."""

    def __init__(self, build: Callable[[], nn.Module]) -> None:
        super().__init__()
        for name, p in build().named_parameters():
            self.register_parameter(name.replace(".", "-"), nn.Parameter(p.detach().clone()))

    def forward(self, x: Tensor) -> Tensor:
        of = {name.replace("-", ".").replace("parametrizations.weight.", ""): p for name, p in self.named_parameters()}
        first = of["0.original"] / 2 if "0.original" in of else of["0.weight"]
        length, v = (of["2.original0"], of["2.original1"]) if "2.original0" in of else (1.0, of["2.original"])
        return (x @ first.T + of["0.bias"]).tanh() @ (length * v / v.norm(dim=1, keepdim=True)).T + of["2.bias"]


@covers("parametrize", "own parametrizations")
@pytest.mark.parametrize(("spec", "way"), [p for p in WAYS if not p.values[0].needs_attach])
def test_parametrized(spec: Spec, way: str) -> None:
    """The posterior is over the original parameters; every draw goes through the parametrization."""
    model, opt = trained(parametrized, spec, way)
    agree((model, opt), trained(lambda: ByHand(parametrized), spec, way), 1e-8)
    if spec.mean_field:
        name = "0.parametrizations.weight.original"
        post = opt.posterior(model)
        assert name in post.mean
        draws, g = post.sample(4, generator=torch.Generator().manual_seed(2)), torch.Generator().manual_seed(2)
        outputs = vadam.predict(model, post, data()[0].detach(), 4, generator=g).samples
        assert len({float(output.sum()) for output in outputs}) == 4
        assert draws[name].shape == (4, 6, 3)


@covers("parametrize", "weight_norm of torch")
@pytest.mark.parametrize(
    "spec", [s for s in SPECS if not s.needs_attach and (s.backward or not s.differentiable)], ids=str
)
def test_weight_norm(spec: Spec) -> None:
    """Not for exact Hessians: those of torch's fused kernel are wrong (``gradgradcheck`` says so), its gradients are right."""
    agree(trained(weight_normed, spec), trained(lambda: ByHand(weight_normed), spec), 1e-8)


@covers("parametrize", "own parametrizations", refuses=True)
@pytest.mark.parametrize("spec", [s for s in SPECS if s.needs_attach], ids=str)
def test_parametrized_layers_have_no_per_example_rule(spec: Spec) -> None:
    with pytest.raises((RuntimeError, TypeError, ValueError, NotImplementedError), match="parametriz"):
        trained(parametrized, spec)


class Tied(nn.Module):
    """One matrix at both ends, as in a language model."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.middle, self.out = nn.Linear(3, 4, bias=False), nn.Linear(3, 4), nn.Linear(3, 4, bias=False)
        self.out.weight = self.into.weight

    def forward(self, x: Tensor) -> Tensor:
        return (self.out(x).tanh() * self.middle(x) + self.into(x))[:, :2]


class TiedByHand(Tied):
    def forward(self, x: Tensor) -> Tensor:
        w = self.into.weight
        return (nn.functional.linear(x, w).tanh() * self.middle(x) + nn.functional.linear(x, w))[:, :2]


@covers("tied weights", "one tensor, one posterior, every way of use")
@pytest.mark.parametrize(("spec", "way"), WAYS)
def test_tied(spec: Spec, way: str) -> None:
    """All uses see the same sample. VOGN squares the sum of an example's contributions, as a loop over the examples does."""
    model, opt = trained(Tied, spec, way, steps=2)
    if spec.needs_attach:
        expected = per_example_squares(spec, way)
        s, s0 = opt.state[model.into.weight]["s"], opt.state[model.into.weight].get("s0", 0.0)
        torch.testing.assert_close(s + s0, expected, rtol=1e-9, atol=1e-12)
    else:
        agree((model, opt), trained(TiedByHand, spec, way, steps=2))
    if spec.mean_field:
        assert set(opt.posterior(model).mean) == {"into.weight", "middle.weight", "middle.bias"}


def per_example_squares(spec: Spec, way: str) -> Tensor:
    """Return s after two steps from gradients of one example at a time, at the samples that the optimizer drew."""
    seen: list[Tensor] = []

    class Watching(Tied):
        def forward(self, x: Tensor) -> Tensor:
            seen.append([p.detach().clone() for p in self.parameters()])
            return super().forward(x)

    model, opt = trained(Watching, spec, way, steps=2)
    group, (x, y) = opt.param_groups[0], data()
    s = torch.full_like(model.into.weight, (spec.kwargs["init_precision"] - spec.kwargs["prior_precision"]) / N)
    last_step = torch.zeros_like(s)
    for sample in seen[:2]:
        at = Tied().double()
        with torch.no_grad():
            for p, value in zip(at.parameters(), sample, strict=True):
                p.copy_(value)
        squares = torch.zeros_like(s)
        for i in range(N):
            loss = (at(x[i : i + 1]) - y[i : i + 1]).square().mean()
            squares += torch.autograd.grad(loss, at.into.weight)[0] ** 2 / N
        beta = group["beta"] if "beta" in group else group["betas"][1]
        M = group.get("batch_size")
        w = 1.0 if M is None else (N - M) / (M * (N - 1))
        before, s = s, beta * s + (1 - beta) * w * squares
        if group.get("exact_momentum"):
            s = s + group["momentum"] * last_step
        last_step = s - before
    return s.detach()
