import pytest
import torch

import vadam
from vadam import schedules


def test_decay_is_the_papers() -> None:
    weight = torch.nn.Parameter(torch.zeros(1))
    opt = vadam.Vadam([weight], lr=0.1, num_data=1)
    rate = torch.optim.lr_scheduler.LambdaLR(opt, schedules.decay(0.55))
    with opt.sampled_params():
        weight.square().sum().backward()
    opt.step()  # LambdaLR warns when it is stepped before the optimizer
    for t in range(1, 5):
        rate.step()
        assert opt.param_groups[0]["lr"] == pytest.approx(0.1 / (1 + t**0.55))


def test_annealing_reaches_its_end_and_resumes() -> None:
    opt = vadam.Vadam([torch.nn.Parameter(torch.zeros(1))], num_data=1)
    tau = schedules.Anneal(opt, "tau", schedules.linear(1.0, 0.0, steps=4))
    seen = []
    for _ in range(6):
        seen.append(opt.param_groups[0]["tau"])
        tau.step()
    assert seen == [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    twin = schedules.Anneal(opt, "tau", schedules.linear(1.0, 0.0, steps=4))
    twin.load_state_dict({"t": 3})
    assert opt.param_groups[0]["tau"] == 0.25
    assert twin.state_dict() == {"t": 3}


def test_unknown_arguments() -> None:
    opt = vadam.VadaGrad([torch.nn.Parameter(torch.zeros(1))], init_precision=1.0)
    with pytest.raises(ValueError, match="VadaGrad has no argument 'tau'"):
        schedules.Anneal(opt, "tau", schedules.linear(1, 0, steps=1))
    with pytest.raises(ValueError, match="steps must be at least 1, got 0"):
        schedules.linear(1, 0, steps=0)


def test_a_schedule_without_effect_is_refused() -> None:
    model = torch.nn.Linear(2, 1)
    post = vadam.Vadam(model.named_parameters(), num_data=10).posterior()
    opt = vadam.Vadam(model.named_parameters(), num_data=10, prior=post)
    with pytest.raises(ValueError, match="prior_precision has no effect in a group whose prior is a posterior"):
        schedules.Anneal(opt, "prior_precision", schedules.linear(1.0, 2.0, steps=4))
    with pytest.raises(ValueError, match="would replace the prior's mean of every weight"):
        schedules.Anneal(opt, "prior", schedules.linear(0.0, 1.0, steps=4))
    with pytest.raises(ValueError, match="init_precision has no effect after the first step"):
        schedules.Anneal(opt, "init_precision", schedules.linear(1e3, 1e4, steps=4))
    learned = vadam.Vadam(model.parameters(), num_data=10, learn_prior_every=5)
    with pytest.raises(ValueError, match="learn_prior_every=5 sets prior_precision too"):
        schedules.Anneal(learned, "prior_precision", schedules.linear(1.0, 2.0, steps=4))
