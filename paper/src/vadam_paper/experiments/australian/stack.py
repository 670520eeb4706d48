"""All seeds of one method as one stack of networks, stepped by ``vadam.ensemble`` and looked at every few steps."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from vadam.ensemble import MLP, Method, layout, noise
from vadam.ensemble import step as steps
from vadam.ensemble.engine import choose
from vadam.ensemble.methods import Hyper
from vadam.ensemble.minibatches import Batch, Rows, minibatches
from vadam_paper.data import Split
from vadam_paper.experiments.australian.config import Config

ELBO_SAMPLES = 100


class Stack:
    """E networks with Bernoulli outputs, seeds ``seed``, ``seed`` + 1, ..., on one split of the data."""

    def __init__(
        self, X: Tensor, y: Tensor, split: Split, network: MLP, method: Method, batch_size: int, config: Config
    ) -> None:
        self.seeds = list(range(config.seed, config.seed + config.seeds))
        self.train = X[split.train], y[split.train]
        self.test = X[split.test], y[split.test]
        self.method, self.batch_size, self.lr = method, batch_size, config.lr
        E, N = len(self.seeds), len(split.train)
        lam, one = torch.full((E,), config.prior_precision), torch.ones(E)
        self.constants = steps.Constants(lam=lam, N=torch.full((E,), float(N)), tau=one, dropout=torch.zeros(E))
        self.shapes = layout.shapes_of(network)
        self.engine = choose("bmm", network, "bernoulli")
        self._step = steps.make(method, self.engine, self.shapes, batch_size, compiled=config.compiled)
        self.state = steps.start(method, self._first_weights(network), self.constants)

    def minibatches(self, count: int) -> Iterator[Batch]:
        """Every epoch a new order of the rows; the last small minibatch is kept."""
        E, (x, y) = len(self.seeds), self.train
        rows = Rows(x.repeat(E, 1), y.repeat(E)[:, None], [len(x)] * E)
        return minibatches(
            rows,
            steps=[count] * E,
            seeds=self.seeds,
            lr=[self.lr] * E,
            batch_size=self.batch_size,
            schedule=None,
            stream=noise.Stream.WEIGHTS,
        )

    def step(self, batch: Batch) -> None:
        self.state = self._step(self.state, batch, self.constants)

    def test_log_losses(self, samples: int, step: int) -> tuple[Tensor, Tensor]:
        """In bits, [E] each: joint, −(1/n) log₂ mean_s Π_i p(y_i | θ_s), and pointwise, −(1/n) Σ_i log₂ mean_s p."""
        log_p = self._log_prob(*self.test, samples, step)
        log_S, n = math.log(samples), log_p.shape[-1]
        joint = (log_p.sum(-1).logsumexp(1) - log_S) / n
        pointwise = (log_p.logsumexp(1) - log_S).mean(-1)
        return -joint / math.log(2), -pointwise / math.log(2)

    def nelbo_per_datum(self) -> Tensor:
        """−ELBO/N in nats: mean training loss over samples of q, plus KL(q‖prior)/N, [E]."""
        N, lam = self.constants.N[0], self.constants.lam[:, None]
        precision = self._precision()
        kl = 0.5 * (lam / precision + lam * self.state.mu**2 - 1 + (precision / lam).log()).sum(1)
        return -self._log_prob(*self.train, ELBO_SAMPLES, 0).mean((1, 2)) + kl / N

    def tensors(self) -> dict[str, Tensor]:
        return dict(self.state._asdict())

    def load(self, tensors: dict[str, Tensor]) -> None:
        self.state = type(self.state)(*(tensors[name] for name in self.state._fields))

    def _log_prob(self, x: Tensor, y: Tensor, samples: int, step: int) -> Tensor:
        """log p(y_i | x_i, θ_s), [E, S, n]."""
        key = noise.keys(self.seeds, [step], noise.Stream.EVALUATION)[0]
        sigma = self._precision().rsqrt()
        theta, _ = steps.gaussian_samples(key, self.state.mu, sigma, self.shapes, samples)
        logits = self.engine.outputs(theta, x.expand(len(self.seeds), *x.shape))[..., 0].double()
        return torch.nn.functional.logsigmoid((2 * y - 1) * logits)

    def _precision(self) -> Tensor:
        lam, N = self.constants.lam[:, None], self.constants.N[:, None]
        precision = self.method.precision(self.state, Hyper(lam, lam, N))
        assert precision is not None
        return precision

    def _first_weights(self, network: MLP) -> Tensor:
        """nn.Linear's own initialisation, drawn from each seed."""
        drawn = []
        with torch.random.fork_rng(devices=[]):
            for seed in self.seeds:
                torch.manual_seed(seed)
                for module in network.modules():
                    if isinstance(module, torch.nn.Linear):
                        module.reset_parameters()
                drawn.append(torch.cat([p.detach().flatten() for p in network.parameters()]))
        return torch.stack(drawn)
