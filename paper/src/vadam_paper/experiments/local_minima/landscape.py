"""The objective of App. L (Robert & Casella 2005, Fig. 5.2) and its derivatives."""

import torch
from torch import Tensor


def objective(theta: Tensor) -> Tensor:
    """Return F(x, y) = −exp{−(x sin 20y + y sin 20x)² − (x cos 10y − y sin 10x)²}.

    Its minimum, −1, is attained along x = 0.
    """
    x, y = theta[..., 0], theta[..., 1]
    a = x * torch.sin(20 * y) + y * torch.sin(20 * x)
    b = x * torch.cos(10 * y) - y * torch.sin(10 * x)
    return -torch.exp(-(a**2) - b**2)


def gradient(theta: Tensor) -> Tensor:
    theta = theta.detach().requires_grad_()
    (g,) = torch.autograd.grad(objective(theta).sum(), theta)
    return g


def sharpness(theta: Tensor) -> Tensor:
    """Return tr ∇²F: 2 at the origin, hundreds at the other minima."""
    hessian = torch.func.vmap(torch.func.jacrev(torch.func.grad(objective)))(theta.reshape(-1, 2))
    return hessian.diagonal(dim1=1, dim2=2).sum(1).reshape(theta.shape[:-1])
