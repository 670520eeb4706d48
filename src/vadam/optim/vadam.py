"""Vadam: variational inference by weight perturbation in Adam."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from vadam import rules
from vadam.optim.base import VariationalOptimizer
from vadam.optim.common_arguments import CommonArguments
from vadam.optim.signature import group_arguments


class Vadam(VariationalOptimizer):
    r"""Variational Adam (paper §4, Fig. 1).

    Input: α (``lr``), γ₁, γ₂ (``betas``), N (``num_data``), λ (``prior_precision``), τ (``tau``), f the mean negative log-likelihood

    .. code-block:: text

        θ ← μ + σ∘ε,  σ = 1/√(N s + τλ)                  ε ~ N(0, I)
        ĝ ← minibatch gradient of f at θ
        m ← γ₁ m + (1 − γ₁)(ĝ + τλ/N μ)
        s ← (1 − τ(1 − γ₂)) s + (1 − γ₂) ĝ∘ĝ
        m̂ ← m/(1 − γ₁ᵗ),  ŝ ← s/(1 − γ₂ᵗ)
        μ ← μ − α m̂/(√ŝ + τλ/N)

    Args:
        params: parameters, named parameters, or groups of them. A group may set any of the arguments below that is not marked
            as common, and ``deterministic=True``: trained, not sampled (for BatchNorm's parameters, for example).
        lr: the learning rate α.
        betas: the decay rates γ₁, γ₂ of the averages of the gradient and of its square.
        num_data: the number of training examples N. The loss is the mean over a minibatch; N turns it into the total.
        prior_precision: λ of the prior N(0, 1/λ) on every weight. It replaces weight decay.
        init_precision: the posterior's precision at the start; by default 10 N (or λ, if that is larger), on which deep networks
            train. "prior" starts at the prior, as the paper does.
        start_in_step: let ŝ include the start, Fig. 1 to the letter: with a high ``init_precision`` the first steps are shorter. Then
            ``init_precision`` is by default the prior's.
        batch_size: the number of examples M of a step. With it the precision counts s/w instead of s, w = (1/M)(N − M)/(N − 1):
            Theorem 1's correction of the variance. The steps do not change. None is the paper's Fig. 1.
        samples: Monte-Carlo samples S per ``step(closure)`` (common).
        tau: 1 for inference, 0 for optimisation; anneal it to go from one to the other.
        sampling_precision: added to the precision for sampling only, the constant c of the paper's App. K.
        data_weight: how often each example counts: N becomes N times this number.
        temperature: T of the posterior: it divides the precision and leaves the mean.
        prior: the mean of the prior: a number, "init" for the weights at construction, or an earlier posterior, whose mean and
            precision become the prior's.
        learn_prior_every: set ``prior_precision`` by empirical Bayes after every so many steps; 0 keeps it as it is.
        antithetic: draw the noise of an even number of samples in pairs ε, −ε (common).
        generator: where the noise comes from; torch's default generator if not given (common).
        nonfinite: "raise" refuses a step with a gradient that is not finite, "skip" skips and counts it (common).
        backend: how the optimizer's arithmetic runs: "plain" by torch's operators, "native" by loops for float32 on the CPU,
            "compiled" by ``torch.compile``; "auto" is native where it can be, otherwise plain (common).
        store_mean: keep a copy of the mean while the weights hold a sample, and return to it bit for bit. Without it the noise
            is drawn again and taken away, which saves a vector and is exact up to rounding, but an interruption in the very moment
            of drawing cannot be undone (common).

    Example:
        >>> import torch, vadam
        >>> _ = torch.manual_seed(0)
        >>> x = torch.linspace(-1, 1, 100).unsqueeze(1)
        >>> y = 2 * x + 0.1 * torch.randn(100, 1)
        >>> model = torch.nn.Linear(1, 1)
        >>> opt = vadam.Vadam(model.parameters(), lr=0.1, num_data=100)
        >>> def closure():
        ...     opt.zero_grad()
        ...     loss = 0.5 * 100 * (model(x) - y).square().mean()   # Gaussian noise of precision 100
        ...     loss.backward()
        ...     return loss
        >>> for _ in range(200):
        ...     loss = opt.step(closure)
        >>> post = opt.posterior(model)
        >>> bool(abs(post.mean["weight"] - 2) < 0.1)
        True
    """

    rule = rules.vadam
    supports_deterministic = True

    @group_arguments
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        *,
        num_data: float,
        prior_precision: float = 1.0,
        init_precision: float | str | None = None,
        start_in_step: bool = False,
        batch_size: int | None = None,
        tau: float = 1.0,
        sampling_precision: float = 0.0,
        **common: Unpack[CommonArguments],
    ) -> None: ...
