"""The cost of a step: stochastic layers as the judge's peer, and verdicts from recorded times."""

import pytest
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

from vadam.backends.noise import NoiseSource
from vadam_paper.experiments.cost.claims import CLAIMS
from vadam_paper.experiments.cost.config import preset
from vadam_paper.experiments.cost.run import COMPILED, METHODS, training_step
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


@pytest.mark.parametrize("method", [name for name in METHODS if not name.endswith(COMPILED)])
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
    slower = {"vadam_eager": 2.5, "vprop_eager": 2.4, "vadam_whole": 1.2, "vprop_whole": 1.1, "vadam_compiled": 4}
    cheap = recorded(adam=1, vadam=1.4, vprop=1.3, vogn=2, bbvi=2, layers=3, layers_whole=2, **slower)
    dear = recorded(adam=1, vadam=1.4, vprop=1.3, vogn=1.35, bbvi=2, layers=2, layers_whole=1, **slower)
    unfair = recorded(adam=1, vadam=1.4, vprop=1.3, vogn=2, bbvi=2, layers=2, layers_whole=2, **slower)
    assert computation is not None
    assert vogn is not None
    assert computation(cheap).verdict == vogn(cheap).verdict == Verdict.SUPPORTED
    assert computation(dear).verdict == vogn(dear).verdict == Verdict.CONTRADICTED
    assert computation(unfair).verdict == Verdict.CONTRADICTED  # cheaper than the default backend only
    assert "one by one: 1.2 [1.2, 1.2] × that of Vadam" in computation(cheap).text
    assert "2.14 [2.14, 2.14] × and 1.43 [1.43, 1.43] × that of Vadam's default backend" in computation(cheap).text
    assert '0.5 [0.5, 0.5] × that of its backend="compiled"' in computation(cheap).text  # said, though it is slower


@pytest.mark.parametrize("method", ["vadam-whole", "vprop-whole"])
def test_whole_graphs_take_the_steps_of_the_library(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise the compiled equations and the library's optimizer end at the same weights."""
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    monkeypatch.setattr(torch, "randn_like", torch.zeros_like)
    monkeypatch.setattr(NoiseSource, "normal", lambda self, index, device, dtype: lambda n: torch.zeros(n, dtype=dtype))
    models: list[nn.Sequential] = []
    sequential = nn.Sequential
    monkeypatch.setattr(nn, "Sequential", lambda *layers: models.append(sequential(*layers)) or models[-1])
    for name in (method, method.replace("-whole", "-eager")):
        step = training_step(preset("smoke", "text"), name)
        for _ in range(5):
            step()
    whole, library = (list(model.parameters()) for model in models)
    torch.testing.assert_close(whole, library)
