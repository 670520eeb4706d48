"""Per-example gradients of convolutions.

A minibatch of B convolutions with G groups equals one convolution with B·G groups of a single example that is B
times wider. Its weight gradient holds the B per-example gradients side by side. It is computed in chunks of
examples, so that no tensor of size B · |W| exists.
"""

from itertools import product
from math import prod

import torch
import torch.nn.functional as F
from torch import Size, Tensor
from torch.nn.grad import conv1d_weight, conv2d_weight, conv3d_weight

from vadam.curvature.perexample.call import Call
from vadam.curvature.perexample.gradients import FEW_POSITIONS, Added, Gradients, Outer

WEIGHT_GRADIENT = {1: conv1d_weight, 2: conv2d_weight, 3: conv3d_weight}


class Convolution(Gradients):
    """Gradients cᵢ = ∂⟨zᵢ, conv(xᵢ, W)⟩/∂W for x [B, I, *space] and z [B, O, *space]."""

    def __init__(self, x: Tensor, z: Tensor, shape: Size, stride: tuple, padding: tuple, dilation: tuple, groups: int):
        super().__init__(len(x), max(shape.numel(), x.shape[1:].numel(), z.shape[1:].numel()), x.device)
        self.x, self.z, self.shape = x, z, shape
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups

    def of(self, examples: slice) -> Tensor:
        x, z = self.x[examples], self.z[examples]
        count, (outputs, *kernel) = len(x), self.shape
        if not count:
            return z.new_zeros(0, *self.shape)
        c = WEIGHT_GRADIENT[x.ndim - 2](
            x.reshape(1, -1, *x.shape[2:]),
            (count * outputs, *kernel),
            z.reshape(1, -1, *z.shape[2:]),
            self.stride,
            self.padding,
            self.dilation,
            count * self.groups,
        )
        return c.view(count, *self.shape)


def convolution(call: Call) -> dict[str, Gradients]:
    """Return the gradients of a convolution; with few output positions, compute them as those of a matrix."""
    module, z = call.module, call.output_grad
    x, padding = _padded(call)
    weight: Gradients
    if module.groups == 1 and prod(z.shape[2:]) <= FEW_POSITIONS:
        weight = Outer(channels_last(z), _patches(call, x, padding), module.weight.shape)
    else:
        weight = Convolution(x, z, module.weight.shape, module.stride, padding, module.dilation, module.groups)
    return {"weight": weight, "bias": Added(channels_last(z))}


def transposed_convolution(call: Call) -> dict[str, Gradients]:
    """Return the gradients of y = convᵀ(x, W).

    It is the adjoint of a convolution, so x and z swap roles: ∂⟨z, convᵀ(x, W)⟩/∂W = ∂⟨x, conv(z, W)⟩/∂W.
    """
    module, x, z = call.module, _batched_input(call), call.output_grad
    weight = Convolution(z, x, module.weight.shape, module.stride, module.padding, module.dilation, module.groups)
    return {"weight": weight, "bias": Added(channels_last(z))}


def channels_last(tensor: Tensor) -> Tensor:
    """Reshape [B, C, *space] to [B, T, C]."""
    return tensor.unsqueeze(1) if tensor.ndim == 2 else tensor.flatten(2).transpose(1, 2)


def _batched_input(call: Call) -> Tensor:
    if call.input.ndim != call.module.weight.ndim:
        raise call.unbatched(call.input)
    return call.input


def _padded(call: Call) -> tuple[Tensor, tuple]:
    """Pad the input where the padding is uneven or not zero.

    Return it with the zero padding that is left to the convolution.
    """
    module, x = call.module, _batched_input(call)
    if module.padding_mode == "zeros" and not isinstance(module.padding, str):
        return x, module.padding
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    return F.pad(x, module._reversed_padding_repeated_twice, mode=mode), (0,) * (x.ndim - 2)


def _patches(call: Call, x: Tensor, padding: tuple) -> Tensor:
    """Return the part of the input that the kernel sees at each output position: [B, T, I · kernel]."""
    module = call.module
    x = F.pad(x, [side for amount in reversed(padding) for side in (amount, amount)])
    axes = list(zip(module.stride, module.dilation, module.kernel_size, strict=True))
    patches = []
    for position in product(*map(range, call.output_grad.shape[2:])):
        window = tuple(
            slice(at * stride, at * stride + dilation * (size - 1) + 1, dilation)
            for at, (stride, dilation, size) in zip(position, axes, strict=True)
        )
        patches.append(x[:, :, *window].flatten(1))
    return torch.stack(patches, dim=1)
