"""Newton's method for convex functions: solve for the step, and choose its size."""

from collections.abc import Callable

import torch
from torch import Tensor

Pair = tuple[Tensor, Tensor]
REMEDY = "scale the columns of X to similar size, or use a larger prior_precision or tolerance"


def conjugate_gradients(matrix_times: Callable[[Tensor], Tensor], b: Tensor, max_iterations: int = 100) -> Tensor:
    """Return x with Hx ≈ b for positive definite H.

    The tolerance shrinks with b, so that Newton's method converges superlinearly.
    """
    x, residual, direction = torch.zeros_like(b), b, b
    target = min(0.1, b.norm().item()) * b.norm()
    for _ in range(max_iterations):
        if residual.norm() <= target:
            break
        H_direction = matrix_times(direction)
        rate = residual.square().sum() / (direction @ H_direction)
        x, new_residual = x + rate * direction, residual - rate * H_direction
        direction = new_residual + new_residual.square().sum() / residual.square().sum() * direction
        residual = new_residual
    return x


def step_size(objective: Callable[[Tensor, Tensor], Tensor], at: Pair, step: Pair, predicted_decrease: float) -> float:
    """Return the first of 1, ½, ¼, ... that decreases the objective enough (Armijo), up to rounding.

    A step out of the domain takes the logarithm of a negative number. The objective is NaN there and is never accepted.
    """
    old = objective(*at)
    for size in (0.5**halvings for halvings in range(60)):
        new = objective(at[0] + size * step[0], at[1] + size * step[1])
        if new <= old - 1e-4 * size * predicted_decrease + 1e-13 * old.abs():
            return size
    raise RuntimeError(f"the fit stopped at an objective of {old:.6g} that no step decreases: {REMEDY}")


def did_not_converge(norm: float, tolerance: float, iterations: int) -> RuntimeError:
    """Return the error for a fit that reached the limit of iterations."""
    return RuntimeError(f"after {iterations} iterations the gradient norm {norm:.1e} is above {tolerance=}: {REMEDY}")
