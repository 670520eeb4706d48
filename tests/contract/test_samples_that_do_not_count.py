"""A draw without a gradient does not affect the step."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from specs import SPECS, Spec
from vadam.optim.base import VariationalOptimizer

ONE_ROW_EACH = {spec.build: spec for spec in reversed(SPECS) if "attach" in spec.ways}


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(8, 3, generator=generator), torch.randn(8, 1, generator=generator)


def in_closure(model: nn.Module, make: Callable[..., VariationalOptimizer], extra: bool) -> None:
    """Skip a sample inside the closure, as for a loss that is not finite."""
    opt, calls = make(samples=1 + extra), 0
    if opt.records_curvature:
        opt.attach(model)

    def closure() -> Tensor:
        nonlocal calls
        calls += 1
        x, y = data()
        loss = (model(x) - y).square().mean()
        if calls == 1:
            loss.backward()
        return loss

    opt.step(closure)


def in_context(model: nn.Module, make: Callable[..., VariationalOptimizer], extra: bool) -> None:
    opt = make().attach(model)
    x, y = data()
    with opt.sampled_params():
        (model(x) - y).square().mean().backward()
    if extra:
        model(x)  # in training mode: the attached model draws
    opt.step()


def in_loop(model: nn.Module, make: Callable[..., VariationalOptimizer], extra: bool) -> None:
    opt = make(samples=2).attach(model)
    x, y = data()
    for _ in range(2):
        (model(x) - y).square().mean().backward()
    if extra:
        model(x)
    opt.step()


@pytest.mark.parametrize("way", [in_closure, in_context, in_loop])
@pytest.mark.parametrize("spec", ONE_ROW_EACH.values(), ids=str)
@pytest.mark.parametrize(
    "options", [{"backend": "plain"}, {"store_mean": False}, {"backend": "native"}, {"backend": "compiled"}], ids=str
)
def test_the_step_is_the_same(spec: Spec, way: Callable[..., None], options: dict[str, object]) -> None:
    means = []
    for extra in (False, True):
        torch.manual_seed(0)
        model = nn.Linear(3, 1)
        number = {"num_data": 100} if spec.has_prior else {"init_precision": 100.0}
        generator = torch.Generator().manual_seed(1)
        way(model, partial(spec.build, model.parameters(), lr=0.1, generator=generator, **number, **options), extra)
        means.append([p.detach().clone() for p in model.parameters()])
        torch.manual_seed(0)
        assert not torch.equal(means[-1][0], nn.Linear(3, 1).weight)
    torch.testing.assert_close(means[1], means[0], rtol=1e-5, atol=1e-6)
