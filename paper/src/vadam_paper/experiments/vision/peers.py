"""Optimizers of other packages, beside ours."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from torch import nn

from vadam.gaussian import MeanFieldGaussian
from vadam_paper.experiments.contract import ExperimentError
from vadam_paper.experiments.optimizer_setup import Setup
from vadam_paper.experiments.vision.methods import HESS_INIT, IVON_BETAS


class IvonOpt:
    """The package ivon-opt of IVON's authors, with the settings of ours."""

    def __init__(self, model: nn.Module, given: Setup) -> None:
        try:
            from ivon import IVON
        except ImportError as error:
            raise ExperimentError("The method ivon-opt needs its package: pip install ivon-opt.") from error
        settings, self.model = given.settings, model
        ess = given.N * settings["data_weight"]
        self.optimizer: Any = IVON(
            given.params,
            lr=settings["lr"],
            ess=ess,
            hess_init=HESS_INIT,
            beta1=IVON_BETAS[0],
            beta2=IVON_BETAS[1],
            weight_decay=settings["prior_precision"] / ess,
        )

    def sampled(self) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = self.optimizer.sampled_params(train=True)
        return context

    def posterior(self) -> MeanFieldGaussian:
        group = self.optimizer.param_groups[0]
        precision = group["ess"] * (group["hess"] + group["weight_decay"])
        named = dict(self.model.named_parameters())
        parts = precision.split([p.numel() for p in named.values()])
        return MeanFieldGaussian(
            {name: p.detach() for name, p in named.items()},
            {name: part.reshape(p.shape) for (name, p), part in zip(named.items(), parts, strict=True)},
        )


PEERS: dict[str, Callable[[nn.Module, Setup], IvonOpt]] = {"ivon-opt": IvonOpt}
