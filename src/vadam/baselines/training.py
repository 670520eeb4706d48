"""How every baseline is trained: Adam on the minibatch mean negative log-likelihood, the prior as weight decay."""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

from vadam.likelihoods import Likelihood

ModelOrFactory = nn.Module | Callable[[], nn.Module]
Progress = Callable[[int, int], None]


def built(model: ModelOrFactory, generator: torch.Generator | None) -> nn.Module:
    """The module itself, or a new one from the factory, its first weights drawn from the generator if there is one."""
    if isinstance(model, nn.Module):
        return model
    if generator is None:
        return model()
    seed = torch.randint(2**62, (), generator=generator, device=generator.device).item()
    with torch.random.fork_rng():
        torch.manual_seed(int(seed))
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
    """``priors`` pairs parameters with the precision λ of their prior, 0 for none, which is a weight decay of λ/N.

    The rows are shuffled anew in every epoch; the last, smaller minibatch is kept and averaged over its own size.
    ``progress(done, epochs)`` is called after each epoch.
    """
    if len(X) != len(y) or not len(X):
        raise ValueError(f"X and y need the same number of rows, one or more, but have {len(X)} and {len(y)}")
    if epochs < 0 or batch_size < 1:
        raise ValueError(f"epochs={epochs} must be 0 or more and batch_size={batch_size} 1 or more")
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


def positive(name: str, value: float) -> float:
    if not 0 < value < float("inf"):
        raise ValueError(f"{name}={value!r} is not valid: it is positive and finite")
    return value


def need_fit(model: nn.Module | None, baseline: object) -> nn.Module:
    if model is None:
        raise RuntimeError(f"{type(baseline).__name__} has no weights yet: call fit(model, X, y, likelihood) first")
    return model
