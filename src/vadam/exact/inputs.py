"""Check the inputs of the exact references and convert them to float64 tensors."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

Array = Tensor | np.ndarray | Sequence[float]


def finite_matrix(X: Array) -> Tensor:
    """Return X as a float64 matrix [N, D]; raise ValueError unless it is finite."""
    X = torch.as_tensor(X, dtype=torch.float64).detach()
    if X.dim() != 2:
        raise ValueError(f"X must be a matrix [N, D], but its shape is {list(X.shape)}")
    if not bool(X.isfinite().all()):
        raise ValueError("X must be finite, but it holds NaN or infinity: drop or fill in those rows")
    return X


def finite_vector(values: Array, name: str) -> Tensor:
    """Return the values as a flat float64 vector; raise ValueError unless it is finite."""
    vector = torch.as_tensor(values, dtype=torch.float64).detach().flatten()
    if not bool(vector.isfinite().all()):
        raise ValueError(f"{name} must be finite, but it holds NaN or infinity: drop or fill in those rows")
    return vector


def prior_diagonal(prior_precision: float | Array, D: int) -> Tensor:
    """Return the diagonal [D] of the prior's precision matrix."""
    lam = torch.as_tensor(prior_precision, dtype=torch.float64).detach()
    if lam.dim() > 1 or (lam.dim() == 1 and len(lam) != D):
        raise ValueError(
            f"prior_precision must be a number or a vector of length {D}, but its shape is {list(lam.shape)}"
        )
    if not bool(((lam > 0) & lam.isfinite()).all()):
        raise ValueError(f"prior_precision must be positive and finite, not {lam.tolist()}")
    return lam.expand(D).clone()


def signed_rows(X: Array, y: Array) -> Tensor:
    """Return the rows yᵢ xᵢ for labels yᵢ = ±1; labels 0 and 1 are converted.

    With them, log p(yᵢ | xᵢ, w) = log σ(row · w).
    """
    X, y = finite_matrix(X), finite_vector(y, "y")
    if len(y) != len(X):
        raise ValueError(f"X has {len(X)} rows, but y has {len(y)} labels: give one for each row")
    found = set(y.unique().tolist())
    if not (found <= {0.0, 1.0} or found <= {-1.0, 1.0}):
        raise ValueError(f"labels must be 0 and 1, or -1 and 1, but y holds {sorted(found)[:5]}")
    return (2 * (y == 1).double() - 1)[:, None] * X
