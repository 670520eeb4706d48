"""The evidence lower bound (ELBO): expected log-likelihood by Monte Carlo, KL to the prior in closed form.

    ELBO = E_q[log p(𝒟 | θ)] − KL(q‖p) ≈ N/n Σᵢ 1/S Σₛ log p(yᵢ | f(xᵢ; θₛ)) − KL(q‖p),  θₛ ~ q

The sum over i runs over the n given examples, which represent all N.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from vadam.forward import sampled_outputs
from vadam.gaussian import FullGaussian, MeanFieldGaussian
from vadam.likelihoods import Likelihood, as_tensor


def elbo(
    model: nn.Module,
    post: MeanFieldGaussian | FullGaussian,
    likelihood: Likelihood,
    data: tuple[Any, Tensor] | Iterable[tuple[Any, Tensor]],
    *,
    num_data: int,
    samples: int = 16,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return the ELBO in nats, a total over all ``num_data`` training examples; higher is better.

    ``data`` is (x, y), or an iterable of such batches: all training data, or a representative part. ``x`` is a tensor,
    tuple or dict, as for ``vadam.predict``. The posterior needs a prior.

    >>> from vadam.likelihoods import Bernoulli
    >>> weight = {"weight": torch.zeros(1, 1)}, {"weight": torch.ones(1, 1)}
    >>> prior_itself = MeanFieldGaussian(*weight, prior_precision={"weight": 1.0})
    >>> data = torch.zeros(5, 1), torch.zeros(5, 1)
    >>> elbo(nn.Linear(1, 1, bias=False), prior_itself, Bernoulli(), data, num_data=10)  # 10 log ½ − 0
    tensor(-6.9315)
    """
    if not hasattr(post, "kl"):
        raise TypeError(
            f"post must be a posterior with a closed-form KL to its prior, got {type(post).__name__}: give a MeanFieldGaussian "
            "or a FullGaussian, as opt.posterior(model) returns"
        )
    if isinstance(num_data, bool) or not isinstance(num_data, Real) or not num_data > 0:
        raise ValueError(f"num_data={num_data!r} is not valid: give the number of training examples")
    kl = post.kl()
    targets: list[Tensor] = []
    outputs = sampled_outputs(model, post, _inputs(data, targets, model), samples, generator=generator)
    y = torch.cat(targets)
    expected_log_prob = torch.stack([likelihood.log_prob(output, y) for output in outputs]).mean()  # of one example
    return num_data * expected_log_prob - kl


def _inputs(
    data: tuple[Any, Tensor] | Iterable[tuple[Any, Tensor]], targets: list[Tensor], model: nn.Module
) -> Iterator[Any]:
    """Yield the inputs of the batches, and add their targets to a list."""
    for batch in [data] if isinstance(data, tuple) else data:
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise TypeError(f"data must be a tuple (x, y), or an iterable of such batches, got {type(data).__name__}")
        y = as_tensor(batch[1], next(model.parameters(), None))
        if len(y):
            targets.append(y)
            yield batch[0]
    if not targets:
        raise ValueError("data holds no example: give (x, y), or an iterable of such batches, with at least one")


def nelbo_per_datum(
    model: nn.Module,
    post: MeanFieldGaussian | FullGaussian,
    likelihood: Likelihood,
    data: tuple[Any, Tensor] | Iterable[tuple[Any, Tensor]],
    *,
    num_data: int,
    samples: int = 16,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return −ELBO/N, on the scale of the training loss; lower is better. Arguments are as for ``elbo``."""
    total = elbo(model, post, likelihood, data, num_data=num_data, samples=samples, generator=generator)
    return -total / num_data
