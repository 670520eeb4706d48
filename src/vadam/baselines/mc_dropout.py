"""MC-Dropout (Gal and Ghahramani 2016): dropout in training and in prediction, as an approximate posterior.

    q(W):  W = M diag(z)/(1 − p),  zⱼ ~ Bernoulli(1 − p), for the weight matrix of every layer, biases without noise
    min_M  mean (y − f)² + reg Σ‖M‖²,   reg = l² (1 − p)/(2Nτ)

This is the set-up of Gal's UCI experiments: inputs are dropped before every layer that has weights, including the
first. l is the prior's length-scale and τ the noise precision. The mean negative log-likelihood is τ/2 times the
squared error. On its scale the gradient of the penalty is τ reg M = l² (1 − p)/(2N) M, a weight decay for any
likelihood.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from vadam.baselines.training import ModelOrFactory, Progress, build_model, check_positive, require_fitted, train
from vadam.likelihoods import Likelihood

Layer = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d


class MCDropout:
    """A network whose weight layers (Linear, Conv) drop their inputs with probability ``rate``.

    The module must not contain dropout itself. τ is in ``vadam.Gaussian(noise_precision=τ)``, in the units of y.
    ``sample`` draws weights, one mask for all inputs, so that every sample is a function. For a single input this is
    the same distribution as one mask per input. Convolutions drop whole channels; sequences drop a feature at every
    position. ``drop_inputs=False`` keeps the first layer's inputs, because images of one channel would be dropped whole.

        dropout = MCDropout(rate=0.05).fit(model, X, y, vadam.Gaussian(noise_precision=10.0), batch_size=128)
        prediction = vadam.predict(dropout.model, dropout, x, likelihood=vadam.Gaussian(noise_precision=10.0))
    """

    model: nn.Module | None = None

    def __init__(self, rate: float = 0.05, *, lengthscale: float = 1e-2, drop_inputs: bool = True) -> None:
        if not 0 <= rate < 1:
            raise ValueError(f"rate must be in [0, 1), got {rate!r}")
        self.rate = rate
        self.lengthscale = check_positive("lengthscale", lengthscale)
        self.drop_inputs = drop_inputs

    def fit(
        self,
        model: ModelOrFactory,
        X: Tensor,
        y: Tensor,
        likelihood: Likelihood,
        *,
        epochs: int = 40,
        batch_size: int = 128,
        lr: float = 1e-3,
        generator: torch.Generator | None = None,
        progress: Progress | None = None,
    ) -> MCDropout:
        """Train ``model`` in place, or a new one if it is a factory, and leave it in evaluation mode."""
        model = build_model(model, generator)
        decayed: list[Tensor] = [layer.weight for layer in _weight_layers(model).values() if layer.weight.requires_grad]
        others: list[Tensor] = [p for p in model.parameters() if p.requires_grad and not any(p is w for w in decayed)]
        priors = [(decayed, self.lengthscale**2 * (1 - self.rate) / 2), (others, 0.0)]
        with self.dropping_inputs(model, generator):
            train(
                model, priors, X, y, likelihood,
                epochs=epochs, batch_size=batch_size, lr=lr, generator=generator, progress=progress,
            )  # fmt: skip
        self.model = model
        return self

    def sample(self, n: int | None = None, *, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        """Draw weights W = M diag(z)/(1 − p), one mask per draw; all other parameters are copied."""
        model = require_fitted(self.model, self)
        lead = () if n is None else (n,)
        draws = {name: p.detach().clone().expand(*lead, *p.shape) for name, p in model.named_parameters()}
        for name, layer in self._dropped_layers(model).items():
            weight = draws[name]
            groups = getattr(layer, "groups", 1)  # of a grouped convolution: each output sees in/groups of the channels
            inputs = weight.shape[len(lead) + 1]
            mask = self._mask((*lead, groups, inputs), weight, generator)
            mask = mask.repeat_interleave(layer.weight.shape[0] // groups, dim=len(lead))
            draws[name] = weight * mask.reshape(*mask.shape, *[1] * (layer.weight.dim() - 2))
        return draws

    @contextmanager
    def dropping_inputs(self, model: nn.Module, generator: torch.Generator | None) -> Iterator[None]:
        """Drop inputs inside the block, with one mask per example and layer: for a custom training loop."""

        def drop(layer: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
            x = args[0]
            shape = [len(x), *[1] * (x.dim() - 1)]
            shape[-1 if isinstance(layer, nn.Linear) else 1] = layer.weight.shape[1] * getattr(layer, "groups", 1)
            return x * self._mask(shape, x, generator), *args[1:]

        hooks = [layer.register_forward_pre_hook(drop) for layer in self._dropped_layers(model).values()]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _dropped_layers(self, model: nn.Module) -> dict[str, Layer]:
        layers = list(_weight_layers(model).items())
        return dict(layers if self.drop_inputs else layers[1:])

    def _mask(self, shape: Any, like: Tensor, generator: torch.Generator | None) -> Tensor:
        """Draw the mask z/(1 − p), whose mean is 1."""
        device = like.device if generator is None else generator.device
        kept = torch.empty(shape, device=device).bernoulli_(1 - self.rate, generator=generator)
        return kept.to(like) / (1 - self.rate)


def _weight_layers(model: nn.Module) -> dict[str, Layer]:
    """Return the layers with weights, keyed by the name of their weight."""
    types = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
    layers = {f"{name}.weight".lstrip("."): module for name, module in model.named_modules() if type(module) in types}
    if not layers:
        raise ValueError(f"MC-Dropout needs Linear or Conv layers, and {type(model).__name__} has none")
    if dropping := [name for name, module in model.named_modules() if _drops_out(module)]:
        raise ValueError(
            f"MC-Dropout drops the inputs of every layer itself, but {dropping[0]!r} drops out, too: set its rate to 0 or leave it out"
        )
    uses = Counter(p for module in model.modules() for p in module.parameters(recurse=False))
    if shared := [name for name, layer in layers.items() if uses[layer.weight] > 1]:
        raise ValueError(
            f"MC-Dropout masks each layer by itself, but {shared[0]!r} is also another layer's: untie them"
        )
    return layers


def _drops_out(module: nn.Module) -> bool:
    """Return True for a dropout layer, and for a recurrent or attention layer with dropout inside."""
    rate = module.p if isinstance(module, _DropoutNd) else getattr(module, "dropout", 0.0)
    return isinstance(rate, int | float) and rate > 0
