"""Matrices in another basis, X' = Q_Lᵀ X Q_R: tensors as matrices, rotations there and back, spreads along the rotated axes.

None, or a matrix without elements, stands for the identity on its side.
"""

from __future__ import annotations

import torch
from torch import Tensor


def matrix_shape(shape: torch.Size) -> tuple[int, int]:
    """Return the shape of a weight as a matrix: [out, in · kernel], a vector as one column."""
    rows = shape[0] if len(shape) else 1
    return rows, shape[1:].numel()


def into_basis(X: Tensor, QL: Tensor | None, QR: Tensor | None) -> Tensor:
    """Return Q_Lᵀ X Q_R of matrices [..., rows, columns]."""
    X = X if is_identity(QL) else QL.mT @ X  # type: ignore[union-attr]
    return X if is_identity(QR) else X @ QR  # type: ignore[operator]


def out_of_basis(X: Tensor, QL: Tensor | None, QR: Tensor | None) -> Tensor:
    """Return Q_L X Q_Rᵀ of matrices [..., rows, columns]."""
    X = X if is_identity(QL) else QL @ X  # type: ignore[operator]
    return X if is_identity(QR) else X @ QR.mT  # type: ignore[union-attr]


def diagonal_in_basis(X: Tensor, AL: Tensor | None, AR: Tensor | None) -> Tensor:
    """Return the diagonal of (A_L ⊗ A_R)ᵀ diag(X) (A_L ⊗ A_R) as a matrix: a diagonal covariance or precision seen along other axes."""
    return into_basis(X, _squared(AL), _squared(AR))


def relative(Q: Tensor | None, P: Tensor | None) -> Tensor | None:
    """Return Qᵀ P, the axes P expressed in the basis Q; None for the identity."""
    if is_identity(Q):
        return None if is_identity(P) else P
    return Q.mT if is_identity(P) else Q.mT @ P  # type: ignore[union-attr, operator]


def is_identity(Q: Tensor | None) -> bool:
    """Return True for None and for a matrix without elements."""
    return Q is None or not Q.numel()


def _squared(A: Tensor | None) -> Tensor | None:
    return None if is_identity(A) else A * A  # type: ignore[operator]
