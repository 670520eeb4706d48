"""Replay multi-head attention as linear maps: three for queries, keys and values, and one for the output.

Attention itself is torch's own function, called with identity projections, so that every mask, mode and dropout
draw equals the original's.
"""

import inspect
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vadam.curvature.perexample.call import Call
from vadam.curvature.perexample.gradients import Gradients, Stacked
from vadam.curvature.perexample.replay import LinearMaps, restored

SIGNATURE = inspect.signature(nn.MultiheadAttention.forward)


def attention(call: Call) -> dict[str, Gradients]:
    """Return the per-example gradients of multi-head attention by replaying it."""
    module = call.module
    given = SIGNATURE.bind(module, *call.args, **call.kwargs)
    given.apply_defaults()
    arguments = given.arguments
    q, k, v = (_batch_first(call, arguments[name]) for name in ("query", "key", "value"))
    maps = LinearMaps()
    with torch.enable_grad(), restored(call.random_state):
        weights, biases = _in_projections(call)
        q, k, v = (maps(key, x, w, b) for key, x, w, b in zip("qkv", (q, k, v), weights, biases, strict=True))
        mixed, attention_weights = _attend(module, q, k, v, arguments)
        out = maps("out", mixed, *(_detached(call, p) for p in (module.out_proj.weight, module.out_proj.bias)))
        outputs = [out if module.batch_first else out.transpose(0, 1)]
        if attention_weights is not None:
            outputs.append(attention_weights)
        of_weights, of_biases = maps.gradients(call, outputs)
    gradients = {
        "in_proj_weight": Stacked([of_weights[key] for key in "qkv"]),
        "in_proj_bias": Stacked([of_biases[key] for key in "qkv"]),
        "out_proj.weight": of_weights["out"],
        "out_proj.bias": of_biases["out"],
    }
    return gradients | {f"{key}_proj_weight": of_weights[key] for key in "qkv"}


def _batch_first(call: Call, x: Tensor) -> Tensor:
    if x.ndim != 3:
        raise call.unbatched(x)
    return call.cast(x if call.module.batch_first else x.transpose(0, 1))


def _in_projections(call: Call) -> tuple[list[Any], list[Any]]:
    """Return weights and biases of the query, key and value maps; the module stores them jointly or apart."""
    module = call.module
    if module.in_proj_weight is not None:
        weights = list(_detached(call, module.in_proj_weight).chunk(3))
    else:
        weights = [_detached(call, w) for w in (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)]
    bias = _detached(call, module.in_proj_bias)
    return weights, [None] * 3 if bias is None else list(bias.chunk(3))


def _attend(module: Any, q: Tensor, k: Tensor, v: Tensor, arguments: dict[str, Any]) -> tuple[Tensor, Tensor | None]:
    """Attend between projected [B, T, E]; return the input of the output map, and the attention weights if asked for."""
    identity = torch.eye(module.embed_dim, dtype=q.dtype, device=q.device)
    mixed, weights = F.multi_head_attention_forward(
        query=q.transpose(0, 1),
        key=k.transpose(0, 1),
        value=v.transpose(0, 1),
        embed_dim_to_check=module.embed_dim,
        num_heads=module.num_heads,
        in_proj_weight=identity.repeat(3, 1),
        in_proj_bias=None,
        bias_k=None,
        bias_v=None,
        add_zero_attn=module.add_zero_attn,
        dropout_p=module.dropout,
        out_proj_weight=identity,
        out_proj_bias=None,
        training=module.training,
        key_padding_mask=arguments["key_padding_mask"],
        need_weights=arguments["need_weights"],
        attn_mask=arguments["attn_mask"],
        average_attn_weights=arguments["average_attn_weights"],
        is_causal=arguments["is_causal"],
    )
    return mixed.transpose(0, 1), weights


def _detached(call: Call, param: Tensor | None) -> Any:
    return None if param is None else param.detach().to(call.dtype)
