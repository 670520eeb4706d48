"""The cost of a step: stochastic layers as the judge's peer, and verdicts from recorded times."""

import pytest
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

from vadam_paper.experiments.cost.claims import CLAIMS
from vadam_paper.experiments.cost.config import preset
from vadam_paper.experiments.cost.run import METHODS, training_step
from vadam_paper.experiments.cost.stochastic_layers import StochasticLinear, stochastic
from vadam_paper.experiments.ledger import Verdict
from vadam_paper.experiments.results import Recorded, Results


def test_kl_of_stochastic_layers_up_to_a_constant() -> None:
    torch.manual_seed(0)
    layers = [StochasticLinear(nn.Linear(3, 2).double()) for _ in range(2)]
    for layer in layers:
        for rho in layer.rho:
            nn.init.normal_(rho)

    def exact(layer: StochasticLinear) -> torch.Tensor:
        prior = Normal(torch.tensor(0.0).double(), 4.0**-0.5)
        pairs = zip(layer.mu, layer.rho, strict=True)
        return sum(kl_divergence(Normal(mu, nn.functional.softplus(rho)), prior).sum() for mu, rho in pairs)

    ours, theirs = ([f(layer) for layer in layers] for f in (lambda layer: layer.kl(4.0), exact))
    torch.testing.assert_close(ours[0] - ours[1], theirs[0] - theirs[1])


def test_stochastic_layers_draw_around_the_network() -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1)), torch.randn(5, 4)
    drawn = torch.stack([stochastic(model)(x) for _ in range(400)])
    torch.testing.assert_close(drawn.mean(0), model(x), atol=5e-3, rtol=0)
    assert drawn.std(0).min() > 1e-3


@pytest.mark.parametrize("method", [name for name in METHODS if not name.endswith("-compiled")])
def test_a_step_trains(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    optimizers: list[torch.optim.Optimizer] = []
    init = torch.optim.Optimizer.__init__

    def remember(self: torch.optim.Optimizer, *args: object, **kwargs: object) -> None:
        init(self, *args, **kwargs)
        optimizers.append(self)

    monkeypatch.setattr(torch.optim.Optimizer, "__init__", remember)
    step = training_step(preset("smoke", "text"), method)
    weights = [p for group in optimizers[-1].param_groups for p in group["params"]]
    step()
    before = [p.detach().clone() for p in weights]
    step()
    assert all(not torch.equal(p, q) for p, q in zip(weights, before, strict=True))


def recorded(**milliseconds: float) -> Results:
    times = {name.replace("_", "-"): [t * (1 + 0.01 * i) for i in range(10)] for name, t in milliseconds.items()}
    config = {"sizes": [2, 3, 1], "batch_size": 4}
    return Results({"text": Recorded("paper", "text", {"config": config}, {"step": {"milliseconds": times}})})


def test_verdicts_follow_the_times() -> None:
    computation, vogn = (claim.judge for claim in CLAIMS)
    slower = {"vadam_eager": 2.5, "vprop_eager": 2.4, "vadam_compiled": 1.2, "vprop_compiled": 1.1}
    cheap = recorded(adam=1, vadam=1.4, vprop=1.3, vogn=2, bbvi=2, layers=3, layers_compiled=2, **slower)
    dear = recorded(adam=1, vadam=1.4, vprop=1.3, vogn=1.35, bbvi=2, layers=2, layers_compiled=1, **slower)
    unfair = recorded(adam=1, vadam=1.4, vprop=1.3, vogn=2, bbvi=2, layers=2, layers_compiled=2, **slower)
    assert computation is not None
    assert vogn is not None
    assert computation(cheap).verdict == vogn(cheap).verdict == Verdict.SUPPORTED
    assert computation(dear).verdict == vogn(dear).verdict == Verdict.CONTRADICTED
    assert computation(unfair).verdict == Verdict.CONTRADICTED  # cheaper than the default backend only
    assert "one by one: 1.2 [1.2, 1.2] × that of Vadam" in computation(cheap).text
    assert "By operators one by one it takes 2.14 [2.14, 2.14] × that of Vadam" in computation(cheap).text
