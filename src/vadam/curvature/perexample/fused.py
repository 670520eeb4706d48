"""Layers whose backward pass computes gradient and squares from the same per-example gradients.

The gradient is the sum of the per-example gradients, so a layer that computes them need not compute the gradient
again. This pays off where they are products over the positions of a sequence: linear layers on sequences, and LSTMs.
``fuse`` appends a function with such a backward pass to the output that the layer has computed.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.modules import module as all_modules

from vadam.curvature.perexample import lstm
from vadam.curvature.perexample.call import Call, Layer, full_precision
from vadam.curvature.perexample.closed_forms import linear
from vadam.curvature.perexample.convolution import convolution
from vadam.curvature.perexample.gradients import FEW_POSITIONS, Added, Gradients

PLAIN = (Tensor, nn.Parameter)
OnGrads = Callable[[Sequence[Tensor | None]], dict[str, Gradients] | None]
"""Maps the gradients at the outputs to per-example gradients, or to None if nothing records."""


class FusedLinear(torch.autograd.Function):
    """Pass on the output y = x Wᵀ + b of a layer, with a custom backward pass."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, on_grads: OnGrads) -> Tensor:
        ctx.save_for_backward(x, weight if x.requires_grad else None)
        ctx.on_grads = on_grads
        ctx.mark_dirty(y)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (z,), (x, weight) = grads, ctx.saved_tensors
        _, input_needs, _, bias_needs, _ = ctx.needs_input_grad
        with full_precision(z.device.type):
            per_example = ctx.on_grads(grads) if _adds_to_gradients(ctx.next_functions[2:]) else None
            if per_example is None:
                rows = z.reshape(-1, z.shape[-1])
                weight_grad = rows.t() @ x.reshape(-1, x.shape[-1])
                bias_grad = rows.sum(0) if bias_needs else None
            else:
                weight_grad = _gradient(per_example["weight"])
                bias_grad = _gradient(per_example["bias"]) if bias_needs else None
            return None, z @ weight if input_needs else None, weight_grad, bias_grad, None


class FusedConvolution(torch.autograd.Function):
    """Pass on the output of a convolution layer, with a custom backward pass."""

    @staticmethod
    def forward(
        ctx: Any, y: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, module: Any, on_grads: OnGrads
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.module, ctx.on_grads = module, on_grads
        ctx.mark_dirty(y)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (z,), (x, weight), module = grads, ctx.saved_tensors, ctx.module
        _, input_needs, _, bias_needs, *_ = ctx.needs_input_grad
        with full_precision(z.device.type):
            per_example = ctx.on_grads(grads) if _adds_to_gradients(ctx.next_functions[2:4]) else None
            is_plain = per_example is None
            x_grad, weight_grad, bias_grad = torch.ops.aten.convolution_backward(
                z,
                x,
                weight,
                [module.out_channels] if bias_needs else None,
                module.stride,
                module.padding,
                module.dilation,
                False,
                module.output_padding,
                module.groups,
                (input_needs, is_plain, is_plain and bias_needs),
            )
            if per_example is not None:
                weight_grad = _gradient(per_example["weight"])
                bias_grad = _gradient(per_example["bias"]) if bias_needs else None
            return None, x_grad, weight_grad, bias_grad, None, None


class FusedLSTM(torch.autograd.Function):
    """Pass on the outputs of an LSTM layer, with a custom backward pass."""

    @staticmethod
    def forward(ctx: Any, call: Call, on_grads: OnGrads, y: Tensor, h: Tensor, c: Tensor, *inputs: Tensor) -> Any:
        ctx.save_for_backward(*inputs)
        ctx.call, ctx.on_grads, ctx.module = call, on_grads, call.module
        ctx.set_materialize_grads(False)
        ctx.mark_dirty(y, h, c)
        return y, h, c

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        names = ctx.module._flat_weights_names
        with full_precision(ctx.saved_tensors[0].device.type):
            per_example = ctx.on_grads(grads) if _adds_to_gradients(ctx.next_functions[-len(names) :]) else None
            if per_example is None:
                return *(None,) * 5, *_differentiate_lstm(ctx, grads)
            gradients = [_gradient(per_example[name]) for name in names]
            return *(None,) * 5, *ctx.call.input_grads, *gradients


def _differentiate_lstm(ctx: Any, grads: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Return the gradients at the inputs by autograd, so that they can be differentiated again."""
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        # Views, because one input may depend on another: its gradient must not flow through the other.
        inputs: list[Any] = [None if t is None else t.view_as(t) for t in ctx.saved_tensors]
        outputs = lstm.native(ctx.module, *inputs)
        arrived = [(y, grad) for y, grad in zip(outputs, grads, strict=True) if grad is not None]
        needed = [i for i, needs in enumerate(ctx.needs_input_grad[5:]) if needs]
        found = torch.autograd.grad(
            [y for y, _ in arrived],
            [inputs[i] for i in needed],
            [grad for _, grad in arrived],
            create_graph=create_graph,
            allow_unused=True,
        )
    by_input = dict(zip(needed, found, strict=True))
    return [by_input.get(i) for i in range(len(inputs))]


def _gradient(per_example: Gradients) -> Tensor:
    return per_example.total() if isinstance(per_example, Added) else per_example.total_through_examples()


def _adds_to_gradients(params: Sequence[Any]) -> bool:
    """Return True if this backward pass adds to the gradient of a parameter, given the nodes that would add it."""
    try:
        return any(node is not None and torch._C._will_engine_execute_node(node) for node, _ in params)
    except RuntimeError:  # raised under torch.autograd.grad, which adds to no gradient
        return False


def fuse(call: Call, args: tuple, output: Any, on_grads: OnGrads) -> Any:
    """Return the output with a fused backward pass, or None if the layer must keep autograd's own."""
    layer, x = call.layer, args[0] if args else None
    if layer.is_reused or call.kwargs or not isinstance(x, Tensor) or not _is_first_hook(layer) or _is_special():
        return None
    if layer.rule is linear and len(args) == 1 and _fuses_linear(layer, x, output):
        return FusedLinear.apply(output.detach(), x, layer.module.weight, layer.module.bias, on_grads)
    if layer.rule is convolution and len(args) == 1 and _fuses_convolution(layer, x, output):
        weight, bias = layer.module.weight, layer.module.bias
        return FusedConvolution.apply(output.detach(), x, weight, bias, layer.module, on_grads)
    if layer.rule is lstm.lstm and _fuses_lstm(call, args, output):
        call.needs_input_grad = x.requires_grad
        outputs = [t.detach() for t in (output[0], *output[1])]
        initial = args[1] if len(args) > 1 and args[1] is not None else (None, None)
        y, h, c = FusedLSTM.apply(call, on_grads, *outputs, x, *initial, *layer.module._flat_weights)  # type: ignore[misc]
        call.note_versions()  # the function counts as a change of the outputs
        return y, (h, c)
    return None


def _fuses_linear(layer: Layer, x: Tensor, y: Tensor) -> bool:
    weight = layer.params.get("weight")
    if x.ndim < 3 or weight is None or layer.module.weight is not weight or not _are_plain(x, y, weight):
        return False
    positions = x.numel() // (x.shape[-1] * x.shape[1 if layer.sequence_first else 0]) if x.numel() else 0
    return weight.requires_grad and y.requires_grad and positions > FEW_POSITIONS


def _fuses_convolution(layer: Layer, x: Tensor, y: Tensor) -> bool:
    module, weight = layer.module, layer.params.get("weight")
    if weight is None or module.weight is not weight or not _are_plain(x, y, weight) or x.ndim != weight.ndim:
        return False
    is_zero_padded = module.padding_mode == "zeros" and not isinstance(module.padding, str)
    return is_zero_padded and weight.requires_grad and y.requires_grad and y.shape[2:].numel() > FEW_POSITIONS


def _fuses_lstm(call: Call, args: tuple, output: Any) -> bool:
    weights, followed = call.module._flat_weights, set(call.layer.params.values())
    states = args[1] if len(args) > 1 and args[1] is not None else ()
    if not lstm.has_closed_form(call.module) or args[0].ndim != 3 or call.is_rounded:
        return False
    return all(p in followed and p.requires_grad for p in weights) and _are_plain(args[0], *states, output[0], *weights)


def _are_plain(*tensors: Tensor) -> bool:
    """Return True for ordinary floating-point tensors of one precision."""
    first = tensors[0]
    return first.is_floating_point() and all(type(t) in PLAIN and t.dtype == first.dtype for t in tensors)


def _is_first_hook(layer: Layer) -> bool:
    """Return True if no other hook saw the output, so that it is still the one that the layer computed."""
    return next(iter(layer.module._forward_hooks)) == layer.hook_id and not all_modules._global_forward_hooks


def _is_special() -> bool:
    """Return True under forward-mode derivatives, compilation and checkpointing.

    The second run of a checkpointed segment must save the same tensors as the first. Older versions of torch cannot tell whether a
    layer is checkpointed: there every layer counts as special, which is slower and as right.
    """
    saved_tensor_hooks = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    checkpointed = saved_tensor_hooks is None or saved_tensor_hooks(True) is not None
    return checkpointed or forward_ad._current_level >= 0 or torch.compiler.is_compiling()
