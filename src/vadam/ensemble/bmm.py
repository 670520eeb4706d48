"""Perceptrons by batched matrix products, with an explicit forward and backward pass.

    Z₁ = W₁ A₀ + b₁,  Aₗ = a(Zₗ),  F = Z_L                        A₀ = xᵀ; columns are examples
    Δ_L = −∂ log p/∂F,  Δₗ₋₁ = a'(Zₗ₋₁) ∘ (Wₗᵀ Δₗ)
    ∂/∂Wₗ = Σᵢ wᵢ δₗᵢ aᵀₗ₋₁,ᵢ,   squares: Σᵢ wᵢ δ²ₗᵢ (a²ₗ₋₁,ᵢ)ᵀ

The per-example gradient of a linear layer is an outer product, so its square is the outer product of squares: nothing
larger than the weights is stored. All samples share the inputs, so the first layer is one product per network.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vadam.ensemble.engine import Examples
from vadam.ensemble.layout import Weights
from vadam.ensemble.mlp import Layer
from vadam.likelihoods import FORMULAS


@dataclass(frozen=True)
class BatchedMLP:
    """Compute outputs and gradients of many multilayer perceptrons at once, by batched matrix products."""

    layers: tuple[Layer, ...]
    likelihood: str

    def gradients(self, theta: Weights, examples: Examples, *, squares: bool) -> tuple[Weights, Weights]:
        x, y, weight, tau, keep = examples
        inputs, activations = self._forward(theta, x, keep)
        output = activations[-1].transpose(-1, -2)
        residual = FORMULAS[self.likelihood].residual(output, y[:, None], tau[:, None, None, None])
        delta = (residual * weight[:, None, :, None]).transpose(-1, -2)  # wᵢ δᵢ, [E, S, O, M]
        g: Weights = {}
        h: Weights = {}
        for i in reversed(range(len(self.layers))):
            layer, A = self.layers[i], inputs[i]
            g[layer.weight], g[layer.bias] = _outer(delta, A)
            if squares:
                inverse = torch.where(weight > 0, 1 / weight, 0.0)[:, None, None, :]  # wᵢ δᵢ² = (wᵢ δᵢ)²/wᵢ
                h[layer.weight], h[layer.bias] = _outer(inverse * delta**2, A**2)
            if i > 0:
                delta = _transposed_product(theta[layer.weight], delta)
                if keep:
                    delta = delta * keep[i].transpose(-1, -2)
                delta = delta * _slope(layer.activation, activations[i - 1])
        return g, h

    def outputs(self, theta: Weights, x: Tensor, keep: tuple[Tensor, ...] = ()) -> Tensor:
        return self._forward(theta, x, keep)[1][-1].transpose(-1, -2)

    def _forward(self, theta: Weights, x: Tensor, keep: tuple[Tensor, ...]) -> tuple[list[Tensor], list[Tensor]]:
        """Return the input of every layer and the activation after it; after the last layer this is F."""
        inputs, activations = [], []
        A = x.transpose(-1, -2)
        for i, layer in enumerate(self.layers):
            if keep:
                A = (A if A.dim() == 4 else A[:, None]) * keep[i].transpose(-1, -2)
            inputs.append(A)
            Z = _affine(theta[layer.weight], theta[layer.bias], A)
            A = _activate(self.layers[i + 1].activation, Z) if i + 1 < len(self.layers) else Z
            activations.append(A)
        return inputs, activations


def _activate(activation: str, Z: Tensor) -> Tensor:
    return Z.clamp_min(0) if activation == "relu" else Z.tanh()


def _slope(activation: str, A: Tensor) -> Tensor:
    return (A > 0).to(A.dtype) if activation == "relu" else 1 - A**2


def _affine(W: Tensor, b: Tensor, A: Tensor) -> Tensor:
    """Return W A + b, for W [E, S, o, i] and A [E, S, i, M] or, shared by the samples, [E, i, M].

    For shared inputs the bias is the weight of one more input, which is 1: so it costs neither a pass over Z nor, in the
    gradient, a sum over Δ.
    """
    if A.dim() == 3:
        E, S, o, i = W.shape
        return torch.bmm(torch.cat((W, b.unsqueeze(-1)), -1).view(E, S * o, i + 1), _with_ones(A)).view(E, S, o, -1)
    Z = (W.transpose(-1, -2) * A).sum(-2, keepdim=True) if _as_sum(W) else W @ A
    return Z + b.unsqueeze(-1)


def _transposed_product(W: Tensor, delta: Tensor) -> Tensor:
    """Return Wᵀ Δ."""
    return W.transpose(-1, -2) * delta if _as_sum(W) else W.transpose(-1, -2) @ delta


def _outer(delta: Tensor, A: Tensor) -> tuple[Tensor, Tensor]:
    """Return Δ Aᵀ, the sum over examples of outer products, and Δ 1."""
    if A.dim() == 3:
        E, S, o, M = delta.shape
        both = (
            torch.bmm(_with_ones(A), delta.reshape(E, S * o, M).transpose(1, 2)).view(E, -1, S, o).permute(0, 2, 3, 1)
        )
        return both[..., :-1], both[..., -1]
    product = (delta * A).sum(-1).unsqueeze(-2) if _as_sum(delta) else delta @ A.transpose(-1, -2)
    return product, delta.sum(-1)


def _with_ones(A: Tensor) -> Tensor:
    return torch.cat((A, torch.ones_like(A[:, :1])), 1)


def _as_sum(matrix: Tensor) -> bool:
    """Return True if a product with a single output is computed as a sum, which the compiler can fuse."""
    return matrix.shape[2] == 1 and torch.compiler.is_compiling()
