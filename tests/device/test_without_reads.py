"""A step on a GPU, without one: no optimizer reads from the device, and the number of launches does not grow with the tensors.

Fake tensors raise at any read. Autograd refuses fake CUDA tensors in a torch that was built without CUDA, so gradients are given there;
on the meta device, which stands for another accelerator, networks are differentiated.
"""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

import vadam
from devices import DEVICES, Launches, fake
from specs import BY_NAME, SPECS, Problem, Spec, same, snapshot

GIVEN = [pytest.param(s, way, id=f"{s}-{way}") for s in SPECS if s.backward and not s.needs_attach for way in s.ways]
ELEMENTWISE = [param for param in GIVEN if param.values[0].elementwise]
DIFFERENTIATED = [pytest.param(s, way, id=f"{s}-{way}") for s in SPECS for way in s.ways]


def steps(opt: vadam.VariationalOptimizer, params: list[nn.Parameter], way: str, times: int = 3) -> int:
    """Take steps with given gradients; return the launches of the last one."""
    launches = Launches()
    for _ in range(times):
        grads = iter([[torch.empty_like(p).detach() for p in params] for _ in range(opt.samples)])

        def backward(grads: Iterator[list[Tensor]] = grads) -> float:
            if way == "closure":
                opt.zero_grad()
            for p, g in zip(params, next(grads), strict=True):
                p.grad = g
            return 0.0

        launches = Launches()
        with launches:
            if way == "closure":  # the gradients of the last step are still there
                opt.step(backward)
                continue
            opt.zero_grad()
            for _ in range(opt.samples):
                if way == "context":
                    with opt.sampled_params():
                        backward()
                else:
                    opt.train()
                    backward()
                    opt.eval()
            opt.step()
    return len(launches.names)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("spec", "way"), GIVEN)
def test_cuda_with_given_gradients(spec: Spec, way: str, dtype: torch.dtype) -> None:
    with fake("cuda") as device:
        params = [nn.Parameter(torch.empty(5, 4, device=device, dtype=dtype)) for _ in range(6)]
        opt = spec.make(params)
        assert steps(opt, params, way) > 0
        assert_on(device, opt)


@pytest.mark.parametrize(("spec", "way"), GIVEN)
def test_launches_do_not_depend_on_the_number_of_tensors(spec: Spec, way: str) -> None:
    counts = []
    for tensors in (20, 62):
        with fake("cuda") as device:
            params = [nn.Parameter(torch.empty(64, 64, device=device)) for _ in range(tensors)]
            counts.append(steps(spec.make(params), params, way))
    if spec.elementwise:
        assert counts[0] == counts[1] <= spec.launches
    else:  # a rule that sees shapes has its launches for each tensor
        assert (counts[1] - counts[0]) / (62 - 20) <= spec.launches


@pytest.mark.parametrize(("spec", "way"), [param for param in ELEMENTWISE if param.values[1] != "attach"])
def test_launches_of_several_samples_do_not_either(spec: Spec, way: str) -> None:
    """Gradients are put aside and averaged, and curvatures rescaled, for all tensors at once."""
    counts = []
    for tensors in (4, 12):
        with fake("cuda") as device:
            params = [nn.Parameter(torch.empty(8, 8, device=device)) for _ in range(tensors)]
            counts.append(steps(spec.make(params, samples=4), params, way))
    assert counts[0] == counts[1] <= 4 * spec.launches


@pytest.mark.parametrize(("spec", "way"), ELEMENTWISE)
def test_launches_of_half_precision_weights_do_not_either(spec: Spec, way: str) -> None:
    """The state is float32; rounding it to the weights takes no launch for each tensor."""
    counts = []
    for tensors in (20, 62):
        with fake("cuda") as device:
            params = [nn.Parameter(torch.empty(64, 64, device=device, dtype=torch.bfloat16)) for _ in range(tensors)]
            counts.append(steps(spec.make(params), params, way))
    assert counts[0] == counts[1]


def networks(device: torch.device) -> dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]]:
    def cnn() -> nn.Module:
        return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3))

    def transformer() -> nn.Module:
        return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    return {
        "mlp": (lambda: nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1)), (4, 3)),
        "cnn": (cnn, (4, 1, 8, 8)),
        "transformer": (transformer, (4, 5, 8)),
    }


def train(spec: Spec, way: str, model: nn.Module, x: Tensor, **changes: object) -> vadam.VariationalOptimizer:
    """Take three steps; on a device without values any read raises."""
    opt = spec.make_for(model, **changes)
    if way == "attach":
        opt.attach(model)

    def closure() -> Tensor:
        opt.zero_grad()
        loss = model(x).square().mean()
        if spec.backward:
            loss.backward()
        return loss

    for _ in range(3):
        if way == "closure":
            opt.step(closure)
            continue
        opt.zero_grad()
        for _ in range(opt.samples):
            if way == "context":
                with opt.sampled_params():
                    model(x).square().mean().backward()
            else:
                model(x).square().mean().backward()
        opt.step()
    return opt


def assert_on(device: torch.device, opt: vadam.VariationalOptimizer) -> None:
    """Assert that there is state, and that every vector of it is on the device of its weight."""
    assert opt.state
    for p, state in opt.state.items():
        assert p.device.type == device.type
        assert all(x.device == p.device for x in state.values() if isinstance(x, Tensor) and x.dim())


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize(("spec", "way"), DIFFERENTIATED)
def test_another_device_with_autograd(spec: Spec, way: str, samples: int) -> None:
    with fake("meta") as device, torch.device(device):
        build, shape = networks(device)["mlp"]
        assert_on(device, train(spec, way, build(), torch.empty(shape), samples=samples))


@pytest.mark.parametrize("way", ["closure", "context", "attach"])
@pytest.mark.parametrize("network", ["cnn", "transformer"])
@pytest.mark.parametrize("name", ["VOGN", "Vadam"])
def test_networks_on_another_device(name: str, network: str, way: str) -> None:
    with fake("meta") as device, torch.device(device):
        build, shape = networks(device)[network]
        assert_on(device, train(BY_NAME[name], way, build(), torch.empty(shape)))


def test_clipping_and_loss_scaling_stay_on_the_device() -> None:
    with fake("meta") as device, torch.device(device):
        build, shape = networks(device)["mlp"]
        model, x = build(), torch.empty(shape)
        opt = BY_NAME["VOGN"].make_for(model)
        for _ in range(3):
            opt.zero_grad()
            with opt.sampled_params():
                model(x).square().mean().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
        assert_on(device, opt)


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize(("spec", "way"), DIFFERENTIATED)
def test_a_refused_step_is_masked_and_the_next_one_says_so(
    spec: Spec, way: str, samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Take tensors of the CPU, which have values, for those of another device."""
    monkeypatch.setattr("vadam.optim.nonfinite.is_cpu", lambda x: False)
    problem = Problem()
    opt = spec.make(problem.model.named_parameters(), samples=samples, backend="plain")
    if spec.needs_attach or way == "attach":
        opt.attach(problem.model)
    problem.step(opt, spec, way)
    weights, state, targets = problem.weights(), snapshot(opt), problem.y.clone()
    problem.y[0] = float("nan")
    problem.step(opt, spec, way)
    assert same(problem.weights(), weights)
    problem.y.copy_(targets)
    with pytest.raises(FloatingPointError, match=r"'\d.(weight|bias)' of shape .* is not finite"):
        problem.step(opt, spec, way)
    assert same(problem.weights(), weights)
    assert same(snapshot(opt), state)
    problem.step(opt, spec, way)
    assert not same(problem.weights(), weights)


@pytest.mark.parametrize("as_tensors", [False, True])
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_scalars_of_a_checkpoint_stay_on_the_host(spec: Spec, as_tensors: bool) -> None:
    """Load a checkpoint of the CPU on another device: vectors move there, scalars are numbers."""
    problem = Problem()
    saved = spec.make_for(problem.model)
    problem.step(saved, spec)
    checkpoint = saved.state_dict()
    for state in checkpoint["state"].values() if as_tensors else ():
        state.update({name: torch.tensor(x) for name, x in state.items() if isinstance(x, float)})
    opt = spec.make_for(problem.model.to("meta"))
    opt.load_state_dict(checkpoint)
    assert_on(torch.device("meta"), opt)
    scalars = {name for state in saved.state.values() for name, x in state.items() if isinstance(x, float)}
    assert all(isinstance(state[name], float) for state in opt.state.values() for name in scalars & {*state})


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_step_on_every_device(spec: Spec, device: str) -> None:
    """Three steps on each device that is there: weights and state stay on it, and are finite."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1)).to(device)
    train(spec, "closure", model, torch.randn(8, 3, device=device))
    for p in model.parameters():
        assert p.device.type == device
        assert bool(p.isfinite().all())
