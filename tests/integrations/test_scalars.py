"""Scalars for TensorBoard and other loggers, against the posterior they describe."""

from pathlib import Path

import pytest
import torch
from torch import nn

import vadam
from specs import SPECS, Spec
from vadam.integrations.scalars import log, scalars

X = torch.linspace(-1, 1, 24).view(8, 3)


def loss(model: nn.Module) -> torch.Tensor:
    return model(X).square().mean()


def trained(**arguments: object) -> tuple[nn.Module, vadam.Vadam]:
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1))
    opt = vadam.Vadam(model.parameters(), num_data=8, **arguments).attach(model)
    for _ in range(5):
        opt.zero_grad()
        loss(model).backward()
        opt.step()
    return model, opt


def test_values_are_those_of_the_posterior() -> None:
    model, opt = trained()
    found, post = scalars(opt, model, loss=lambda: loss(model)), opt.posterior(model)
    mean, precision = post.flat()
    assert found["posterior_std"] == pytest.approx(float(precision.rsqrt().mean()), rel=1e-6)
    assert found["posterior_snr"] == pytest.approx(float((mean.abs() * precision.sqrt()).median()), rel=1e-5)
    assert found["prior_share"] + found["start_share"] + found["data_share"] == pytest.approx(1)
    assert found["prior_share"] == pytest.approx(float((1 / precision).mean()), rel=1e-4)  # λ = 1
    model.eval()  # without dropout
    assert found["loss_at_mean"] == pytest.approx(loss(model).item())


def test_modes_and_gradients_stay() -> None:
    model, opt = trained()
    model[1].eval()
    before = [p.grad.clone() for p in model.parameters()]
    scalars(opt, model, loss=lambda: loss(model))
    assert [module.training for module in model.modules()] == [True, True, False, True]
    assert all(torch.equal(p.grad, grad) for p, grad in zip(model.parameters(), before, strict=True))


def test_the_loss_at_the_mean_is_refused_inside_a_sample() -> None:
    model, opt = trained()
    with opt.sampled_params(), pytest.raises(RuntimeError, match="holds a sample"):
        scalars(opt, model, loss=lambda: loss(model))
    with pytest.raises(ValueError, match="loss= needs model="):
        scalars(opt, loss=lambda: loss(model))


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_every_optimizer_has_scalars(spec: Spec) -> None:
    model = nn.Linear(3, 1)
    found = scalars(spec.make_for(model), model)
    assert found["posterior_std"] > 0
    assert found["posterior_snr"] >= 0


def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    tensorboard = pytest.importorskip("torch.utils.tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    model, opt = trained()
    with tensorboard.SummaryWriter(str(tmp_path)) as writer:
        for step in (0, 5):
            log(writer, opt, step, model, loss=lambda: loss(model))
    events = EventAccumulator(str(tmp_path)).Reload()
    assert {name.removeprefix("vadam/") for name in events.Tags()["scalars"]} == set(
        scalars(opt, model, loss=lambda: loss(model))
    )
    shown = events.Scalars("vadam/posterior_std")
    assert [event.step for event in shown] == [0, 5]
    assert shown[0].value == pytest.approx(scalars(opt, model)["posterior_std"])
