"""Find the modules that own the followed parameters, and the rule for the per-example gradients of each."""

from collections.abc import Callable, Collection, Iterator

from torch import nn
from torch.nn.utils.parametrize import ParametrizationList

from vadam.curvature.perexample.attention import attention
from vadam.curvature.perexample.call import WAY_OUT, Layer, Rule
from vadam.curvature.perexample.closed_forms import CLOSED_FORMS
from vadam.curvature.perexample.lstm import lstm
from vadam.curvature.perexample.recurrent import recurrent, recurrent_cell
from vadam.curvature.perexample.vmapped import vmapped

REPLAYS: dict[Callable, Rule] = {
    nn.LSTM.forward: lstm,
    nn.GRU.forward: recurrent,
    nn.RNN.forward: recurrent,
    nn.LSTMCell.forward: recurrent_cell,
    nn.GRUCell.forward: recurrent_cell,
    nn.RNNCell.forward: recurrent_cell,
    nn.MultiheadAttention.forward: attention,
}
TRANSFORMERS = (
    nn.Transformer,
    nn.TransformerEncoder,
    nn.TransformerDecoder,
    nn.TransformerEncoderLayer,
    nn.TransformerDecoderLayer,
)


def layers_of(model: nn.Module, followed: Collection[nn.Parameter], sequence_first: bool | None) -> Iterator[Layer]:
    """Yield a layer for every module that owns a followed parameter."""
    time_leads = {
        inner for outer in model.modules() if _is_sequence_first_transformer(outer) for inner in outer.modules()
    }
    doubtful = sequence_first is None and any(getattr(m, "batch_first", True) is False for m in model.modules())
    inside_attention = {m.out_proj for m in model.modules() if isinstance(m, nn.MultiheadAttention)}
    for name, module in model.named_modules():
        if module in inside_attention:
            continue
        params = {key: p for key, p in _own_parameters(module) if p in followed}
        if not params:
            continue
        if isinstance(module, ParametrizationList):
            raise ValueError(f"{name!r} is parametrised, which is not supported: remove the parametrisation, {WAY_OUT}")
        rule = _rule_for(module)
        of_its_own = hasattr(module, "batch_first")
        first = not module.batch_first if of_its_own else sequence_first or module in time_leads
        is_known = not doubtful or of_its_own or module in time_leads
        replays = rule not in CLOSED_FORMS.values()
        yield Layer(name, module, params, rule, replays=replays, sequence_first=bool(first), is_layout_known=is_known)


def _rule_for(module: nn.Module) -> Rule:
    forward = type(module).forward
    if isinstance(module, nn.MultiheadAttention) and module.bias_k is not None:
        return vmapped
    return CLOSED_FORMS.get(forward) or REPLAYS.get(forward) or vmapped


def _own_parameters(module: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Yield the parameters that a module reads itself; attention also reads those of its output map."""
    yield from module.named_parameters(recurse=isinstance(module, nn.MultiheadAttention), remove_duplicate=False)


def _is_sequence_first_transformer(module: nn.Module) -> bool:
    if not isinstance(module, TRANSFORMERS):
        return False
    return any(not m.batch_first for m in module.modules() if isinstance(m, nn.MultiheadAttention))
