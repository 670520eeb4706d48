"""MC-Dropout (Gal and Ghahramani 2016): dropout in training and in prediction, as an approximate posterior.

    q(W):  W = M diag(z)/(1 − p),  zⱼ ~ Bernoulli(1 − p), for the weight matrix of every layer, biases without noise
    min_M  mean (y − f)² + reg Σ‖M‖²,   reg = l² (1 − p)/(2Nτ)

This is the set-up of Gal's UCI experiments: inputs are dropped before every layer that has weights, the first one
included; l is the prior's length-scale and τ the noise precision. On the scale of the mean negative log-likelihood,
which is τ/2 times the squared error, the penalty's gradient is τ reg M = l² (1 − p)/(2N) M, a weight decay that fits
any likelihood.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from vadam.baselines.training import ModelOrFactory, Progress, built, need_fit, positive, train
from vadam.likelihoods import Likelihood

Layer = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d


class MCDropout:
    """A network whose weight layers (Linear, Conv) see their inputs dropped with probability ``rate``.

    The module brings no dropout of its own. τ is in ``vadam.Gaussian(noise_precision=τ)``, in the units of the y given.
    ``sample`` draws weights, one mask for all inputs, so that every sample is a function; for each single input this is
    the same distribution as a mask of its own. Convolutions drop whole channels, sequences a feature at every position;
    ``drop_inputs=False`` spares the first layer's inputs, as images of one channel would be dropped whole.

        dropout = MCDropout(rate=0.05).fit(model, X, y, vadam.Gaussian(noise_precision=10.0), batch_size=128)
        prediction = vadam.predict(dropout.model, dropout, x, likelihood=vadam.Gaussian(noise_precision=10.0))
    """

    model: nn.Module | None = None

    def __init__(self, rate: float = 0.05, *, lengthscale: float = 1e-2, drop_inputs: bool = True) -> None:
        if not 0 <= rate < 1:
            raise ValueError(f"rate={rate!r} is not valid: the probability to drop an input is at least 0 and below 1")
        self.rate = rate
        self.lengthscale = positive("lengthscale", lengthscale)
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
        """Train ``model`` in place, or a new one if it is a factory; it is in evaluation mode afterwards."""
        model = built(model, generator)
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
        """Weights W = M diag(z)/(1 − p), a mask for each draw; all other parameters are those of the network."""
        model = need_fit(self.model, self)
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
        """Within, every example gets its own mask at every weight layer: for a training loop of your own."""

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
        """z/(1 − p), which is 1 on average."""
        device = like.device if generator is None else generator.device
        kept = torch.empty(shape, device=device).bernoulli_(1 - self.rate, generator=generator)
        return kept.to(like) / (1 - self.rate)


def _weight_layers(model: nn.Module) -> dict[str, Layer]:
    """By the name of their weight."""
    types = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
    layers = {f"{name}.weight".lstrip("."): module for name, module in model.named_modules() if type(module) in types}
    if not layers:
        raise ValueError(f"MC-Dropout drops the inputs of Linear and Conv layers, and {type(model).__name__} has none")
    return layers
