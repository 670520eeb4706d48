"""Per-example gradients in closed form, from the input a of a layer and the gradient z at its output.

The table ``CLOSED_FORMS`` is keyed by the ``forward`` method that a rule describes, so that a subclass that overrides
``forward`` does not match.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vadam.curvature.perexample.call import WAY_OUT, Call, Rule, mixes_examples
from vadam.curvature.perexample.convolution import channels_last, convolution, transposed_convolution
from vadam.curvature.perexample.gradients import Added, AddedOnce, Gradients, OnePosition, Outer, OuterOnce, Rows


def linear(call: Call) -> dict[str, Gradients]:
    """Return the gradients of y_t = W a_t + b: Σₜ z_t a_tᵀ and Σₜ z_t."""
    if call.input.ndim == 2:
        once = OnePosition(call.output_grad)
        return {"weight": OuterOnce(once, call.input), "bias": AddedOnce(once)}
    z = call.positions(call.output_grad, features=1)
    return {"weight": Outer(z, call.positions(call.input, features=1)), "bias": Added(z)}


def embedding(call: Call) -> dict[str, Gradients]:
    """Return the gradient of y_t = W[index_t]: for each row, Σ z_t over the positions that read it.

    The row of ``padding_idx`` gets no gradient.
    """
    module, index = call.module, call.positions(call.input, features=0)
    if module.scale_grad_by_freq:
        raise ValueError(
            f"{call.layer} has scale_grad_by_freq=True, which mixes the examples: set it to False, {WAY_OUT}"
        )
    z = call.positions(call.output_grad, features=1)
    if module.padding_idx is not None:
        z = z * (index != module.padding_idx).unsqueeze(-1)
    return {"weight": Rows(index, z, module.num_embeddings)}


def looks_up_positions(call: Call) -> bool:
    """Return True if a table was read at 0, 1, 2, ... as positions are, which all examples share; False on an accelerator."""
    if call.layer.rule is not embedding or call.input.ndim != 1 or len(call.input) < 2 or not call.input.is_cpu:
        return False
    return torch.equal(call.input, torch.arange(len(call.input), dtype=call.input.dtype, device="cpu"))


def normalisation_over_features(normalised: Callable[[nn.Module, Tensor], Tensor]) -> Rule:
    """Return the rule for y = w∘x̂ + b with w and b of the shape of the last axes: Σₜ z_t∘x̂_t and Σₜ z_t."""

    def rule(call: Call) -> dict[str, Gradients]:
        features = len(call.module.normalized_shape)
        z = call.positions(call.output_grad, features)
        x_hat = call.positions(normalised(call.module, call.input), features)
        return {"weight": Added(z * x_hat), "bias": Added(z)}

    return rule


def normalisation_over_channels(normalised: Callable[[nn.Module, Tensor], Tensor]) -> Rule:
    """Return the rule for y = w∘x̂ + b with one entry of w and b for each channel of tensors [B, C, *space]."""

    def rule(call: Call) -> dict[str, Gradients]:
        if call.input.ndim < 2:
            raise call.unbatched(call.input)
        z, x_hat = call.output_grad, normalised(call.module, call.input)
        return {"weight": Added(channels_last(z * x_hat)), "bias": Added(channels_last(z))}

    return rule


def batch_norm(call: Call) -> dict[str, Gradients]:
    """Return the gradients of a batch normalisation in eval mode; raise ValueError in training mode."""
    if call.module.training or call.module.running_mean is None:
        raise ValueError(f"{mixes_examples(str(call.layer))}, {WAY_OUT}")
    return normalisation_over_channels(_batch_normalised)(call)


def instance_norm(call: Call) -> dict[str, Gradients]:
    """Return the gradients of an instance normalisation."""
    if call.input.ndim == call.module._get_no_batch_dim():
        raise call.unbatched(call.input)
    return normalisation_over_channels(_instance_normalised)(call)


def _layer_normalised(module: nn.Module, x: Tensor) -> Tensor:
    return F.layer_norm(x, module.normalized_shape, eps=module.eps)  # type: ignore[arg-type]


def _rms_normalised(module: nn.Module, x: Tensor) -> Tensor:
    return F.rms_norm(x, module.normalized_shape, eps=module.eps)  # type: ignore[arg-type]


def _group_normalised(module: nn.Module, x: Tensor) -> Tensor:
    return F.group_norm(x, module.num_groups, eps=module.eps)  # type: ignore[arg-type]


def _batch_normalised(module: nn.Module, x: Tensor) -> Tensor:
    return F.batch_norm(x, module.running_mean, module.running_var, eps=module.eps)  # type: ignore[arg-type]


def _instance_normalised(module: nn.Module, x: Tensor) -> Tensor:
    if module.training or not module.track_running_stats:
        return F.instance_norm(x, eps=module.eps)  # type: ignore[arg-type]
    return _batch_normalised(module, x)


CLOSED_FORMS: dict[Callable, Rule] = {
    nn.Linear.forward: linear,
    nn.Embedding.forward: embedding,
    nn.Conv1d.forward: convolution,
    nn.Conv2d.forward: convolution,
    nn.Conv3d.forward: convolution,
    nn.ConvTranspose1d.forward: transposed_convolution,
    nn.ConvTranspose2d.forward: transposed_convolution,
    nn.ConvTranspose3d.forward: transposed_convolution,
    nn.LayerNorm.forward: normalisation_over_features(_layer_normalised),
    nn.RMSNorm.forward: normalisation_over_features(_rms_normalised),
    nn.GroupNorm.forward: normalisation_over_channels(_group_normalised),
    nn.InstanceNorm1d.forward: instance_norm,
    nn.BatchNorm1d.forward: batch_norm,
    nn.SyncBatchNorm.forward: batch_norm,
}
