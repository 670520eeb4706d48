"""The gradient magnitude ĥ = ĝ∘ĝ (paper §3.3) and its bias (Theorem 1).

Vprop, Vadam and VadaGrad use it as their curvature. With g the gradient and h the mean of squared per-example
gradients, both over all N data, a minibatch of M drawn uniformly gives

    E[ĝ∘ĝ] = w h + (1 − w) g∘g,   w = (N − M) / (M (N − 1))

At M = 1, w = 1 and ĥ is unbiased for h. As M grows, w falls like 1/M. Near a minimum, where g ≈ 0, ĝ∘ĝ is about
M times smaller than h, so the posterior variance is too large. VOGN's ĥ is unbiased at every M.
"""

from torch import Tensor


def magnitude(g: Tensor) -> Tensor:
    """Return ĥ = ĝ∘ĝ."""
    return g * g


def gm_bias(num_data: int, batch_size: int) -> float:
    """Return Theorem 1's w = (N − M)/(M (N − 1)), the weight of h in the expected gradient magnitude.

    >>> gm_bias(50_000, 1), round(gm_bias(50_000, 128), 4)
    (1.0, 0.0078)
    """
    if not 1 <= batch_size <= num_data:
        raise ValueError(f"batch_size must be between 1 and num_data = {num_data}, got {batch_size}")
    if num_data == 1:
        return 1.0
    return (num_data - batch_size) / (batch_size * (num_data - 1))


def expected_magnitude(h_full: Tensor, g_full: Tensor, *, num_data: int, batch_size: int) -> Tensor:
    """Return E[ĝ∘ĝ] over minibatches of ``batch_size`` examples drawn without replacement.

    Vadam's s converges to it; VOGN's s converges to ``h_full``. ``h_full`` is the mean of squared per-example
    gradients over all N data and ``g_full`` the mean gradient, at the same weights. The ratio of σ² under Vadam to
    σ² under VOGN is then (h + λ̃) / (E[ĝ∘ĝ] + λ̃).
    """
    w = gm_bias(num_data, batch_size)
    return w * h_full + (1 - w) * g_full**2
