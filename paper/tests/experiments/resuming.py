"""Compare a trial of reinforcement learning that resumes from its checkpoint with an uninterrupted one."""

import json
from dataclasses import replace

import torch

from vadam_paper.experiments.rl.config import Config
from vadam_paper.experiments.rl.methods import Method
from vadam_paper.experiments.rl.trial import Trial


def weights(trial: Trial) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in trial.tensors().items()}


def assert_goes_on_as_if_never_stopped(config: Config, method: Method, until: int) -> None:
    """Stop after the first block, with a replay buffer that is full by then: weights, optimizers, buffer and curve, bit for bit."""
    config = replace(config, buffer_size=config.block - 5)
    whole = Trial(config, method, 0)
    whole.test()
    whole.advance(until)
    assert whole.meta()["full"]
    resumed = Trial(config, method, 0)
    resumed.load(weights(whole), json.loads(json.dumps(whole.meta())))
    for trial in (whole, resumed):
        while trial.step < until:
            trial.advance(until)
    assert resumed.step == whole.step == until
    assert resumed.curve.points == whole.curve.points
    a, b = weights(whole), weights(resumed)
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)
