"""The training loop of every baseline: Adam on the mean negative log-likelihood, with the prior as weight decay."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypedDict

import torch
from torch import Tensor, nn

from vadam.likelihoods import Likelihood
from vadam.seeding import seeded

ModelOrFactory = nn.Module | Callable[[], nn.Module]
Progress = Callable[[int, int], None]


class TrainingOptions(TypedDict, total=False):
    """The options of ``MAP.fit``, for baselines that are made from MAP networks."""

    epochs: int
    batch_size: int
    lr: float
    generator: torch.Generator | None
    progress: Progress | None


def build_model(model: ModelOrFactory, generator: torch.Generator | None) -> nn.Module:
    """Return the module itself, or a new one from the factory, with weights seeded by the generator if given."""
    if isinstance(model, nn.Module):
        return model
    if generator is None:
        return model()
    seed = torch.randint(2**62, (), generator=generator, device=generator.device).item()
    with seeded(int(seed)):
        return model()


def train(
    model: nn.Module,
    priors: Iterable[tuple[Sequence[Tensor], float]],
    X: Tensor,
    y: Tensor,
    likelihood: Likelihood,
    *,
    epochs: int,
    batch_size: int,
    lr: float,
    generator: torch.Generator | None,
    progress: Progress | None,
) -> None:
    """Train a model on shuffled minibatches.

    ``priors`` pairs parameters with the precision λ of their prior, a weight decay of λ/N; 0 means no prior.
    The rows are shuffled in every epoch. The last, smaller minibatch is kept and averaged over its own size.
    ``progress(done, epochs)`` is called after each epoch.
    """
    if len(X) != len(y) or not len(X):
        raise ValueError(f"X and y need the same number of rows, at least 1, got {len(X)} and {len(y)}")
    if epochs < 0 or batch_size < 1:
        raise ValueError(f"epochs must be at least 0 and batch_size at least 1, got {epochs} and {batch_size}")
    optimizer = torch.optim.Adam([{"params": params, "weight_decay": lam / len(X)} for params, lam in priors], lr=lr)
    device = None if generator is None else generator.device
    model.train()
    for epoch in range(epochs):
        for rows in torch.randperm(len(X), generator=generator, device=device).to(X.device).split(batch_size):
            optimizer.zero_grad()
            likelihood.nll(model(X[rows]), y[rows]).backward()
            optimizer.step()
        if progress is not None:
            progress(epoch + 1, epochs)
    model.eval()


def check_positive(name: str, value: float) -> float:
    """Return the value; raise ValueError unless it is positive and finite."""
    if not 0 < value < float("inf"):
        raise ValueError(f"{name} must be positive and finite, got {value!r}")
    return value


def require_fitted(model: nn.Module | None, baseline: object) -> nn.Module:
    """Return the trained model; raise RuntimeError before ``fit``."""
    if model is None:
        raise RuntimeError(f"{type(baseline).__name__} has no weights yet: call fit(model, X, y, likelihood) first")
    return model
