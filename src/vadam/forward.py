"""The outputs of a network at many draws of its weights: outputs[s] = f(x; θₛ), with the same θ₁, …, θ_S for every x.

One draw at a time is the reference. A small network spends that time on overhead, so ``torch.vmap`` takes many draws at
once where the module allows: as many as keep the intermediate results in the cache, which bounds the memory too. The
first draw always goes alone: if something is wrong it raises the module's own error, and it shows how large those
results are.
"""

from __future__ import annotations

import inspect
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch._C import _functorch as functorch
from torch.nn.functional import linear
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.data import DataLoader

from vadam.backends.gaussian_draws import draw_weights
from vadam.backends.row_products import rows_times_matrices
from vadam.backends.shards import is_sharded
from vadam.fabric import is_fabric_module
from vadam.functional import functional_call
from vadam.gaussian import MeanFieldGaussian
from vadam.gaussian.summary import warn_if_uninformed
from vadam.interrupts import Uninterrupted
from vadam.module_state import in_eval_mode

# Measured on CPUs: below 8 draws a pass vmap costs more than it saves; beyond 1 MB of float32 the cache overflows.
VMAP_FROM = 8
FLOATS_A_PASS = {"cpu": 2**18, "accelerator": 2**26}
WEIGHTS_AT_ONCE = 2**22  # draws that stay in the cache until they are used, in memory that is used again
UNMAPPED = -1  # torch's level of a tensor that vmap does not map over
ONE_AT_A_TIME = threading.RLock()
"""Held while draws stand in for a model's weights: threads that share the model, or a part of it, would see each other's draws."""

Weights = dict[str, Tensor]


@runtime_checkable
class WeightSampler(Protocol):
    """A posterior that draws weights: ``n`` of them stacked, keyed by the names of the module's parameters."""

    def sample(self, n: int, *, generator: torch.Generator | None = None) -> Weights: ...


@runtime_checkable
class OutputSampler(Protocol):
    """A posterior that draws outputs by itself, [samples, batch, ...], e.g. MC-Dropout."""

    def outputs(self, x: Any, samples: int, generator: torch.Generator | None = None) -> Tensor: ...


class Draws:
    """Weights that were drawn once and serve many predictions: ``predict(model, draws, x)``.

    >>> from vadam.gaussian import MeanFieldGaussian
    >>> post = MeanFieldGaussian({"weight": torch.ones(1, 1)}, {"weight": torch.full((1, 1), 4.0)})
    >>> len(Draws(post, 8))
    8
    """

    def __init__(self, post: WeightSampler, samples: int = 64, *, generator: torch.Generator | None = None) -> None:
        if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
            raise ValueError(f"samples must be a whole number of at least 1, got {samples!r}")
        self._samples = samples
        if not isinstance(post, WeightSampler):
            raise TypeError(f"a {type(post).__name__} draws no weights: give a posterior, as opt.posterior(model)")
        warn_if_uninformed(post)
        self.weights = _draw(post, samples, generator)

    def __len__(self) -> int:
        return self._samples

    def sample(self, n: int, *, generator: torch.Generator | None = None) -> Weights:
        """Return the first n of the draws."""
        if n > self._samples:
            raise ValueError(f"samples must be at most {self._samples}, the number of draws, got {n}")
        return {name: value[:n] for name, value in self.weights.items()}


def _draw(post: WeightSampler, n: int, generator: torch.Generator | None, used: Weights | None = None) -> Weights:
    """Return n draws, in the memory of ``used`` ones where that fits: new memory costs a page fault for every page."""
    if type(post) is MeanFieldGaussian and not post.pruned:
        return draw_weights(post, n, generator, used)
    return post.sample(n, generator=generator)


def sampled_outputs(
    model: nn.Module,
    post: WeightSampler | OutputSampler,
    x: Any,
    samples: int,
    *,
    batch_size: int | None = None,
    generator: torch.Generator | None = None,
    vmap: bool | None = None,
) -> Tensor:
    """Return the model's outputs at draws of its weights, [samples, batch, ...]; arguments as in ``vadam.predict``."""
    for name, value in {"samples": samples, "batch_size": 1 if batch_size is None else batch_size}.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name}={value!r} is not valid: give a whole number from 1")
    model, prefix = _unwrapped(model)
    _refuse_sharded(model)
    batches: Iterable[Any] = _begun(piece for batch in _batches(x, model) for piece in _pieces(batch, batch_size))
    if isinstance(post, OutputSampler):
        return _wide(torch.cat([_outputs_of(post, batch, samples, generator) for batch in batches], dim=1))
    if not isinstance(post, WeightSampler):
        raise TypeError(
            f"a {type(post).__name__} cannot be sampled: give a posterior, as opt.posterior(model) or load(path).posterior"
        )
    at_once = max(1, WEIGHTS_AT_ONCE // max(1, sum(p.numel() for p in model.parameters())))
    if isinstance(post, Draws):
        at_once = samples  # they are in memory already
    buffers = _Buffers(model)
    passes: Iterable[_Passes] = (_Passes(model, batch, vmap, buffers) for batch in batches)
    if at_once < samples:
        passes = [*passes]  # each is used with several sets of draws
    rows: list[Tensor] = []
    draws: Weights | None = None
    for start in range(0, samples, at_once):
        n = min(at_once, samples - start)
        with ONE_AT_A_TIME, Uninterrupted():
            draws = post.sample(n) if isinstance(post, Draws) else _draw(post, n, generator, draws)
        checked = _checked({name.removeprefix(prefix): value for name, value in draws.items()}, model, n)
        rows.append(torch.cat([outputs(checked, n) for outputs in passes], dim=1))
    return _wide(torch.cat(rows))


def _outputs_of(post: OutputSampler, batch: Any, samples: int, generator: torch.Generator | None) -> Tensor:
    with ONE_AT_A_TIME, torch.no_grad():
        return post.outputs(batch, samples, generator=generator)


class _Passes:
    """Computes f(x; θ₁), …, f(x; θ_n) for one batch of inputs, by vmap where it pays and works, otherwise one draw at a time.

    Signals wait during a pass: otherwise Ctrl-C could leave a draw in the model, or torch inside vmap.
    """

    def __init__(self, model: nn.Module, batch: Any, vmap: bool | None, buffers: _Buffers) -> None:
        self._model, self._batch, self._vmap, self._buffers = model, batch, vmap, buffers
        self._inputs = _Inputs(batch)
        self._chunk: int | None = None  # draws of a pass, known after the first draw

    def __call__(self, draws: Weights, n: int) -> Tensor:
        """Return the outputs at n draws, [n, batch, ...]."""
        with ONE_AT_A_TIME, Uninterrupted() as self._signals, in_eval_mode(self._model) as self._forget:
            return self._outputs(draws, n)

    def _outputs(self, draws: Weights, n: int) -> Tensor:
        if self._chunk is not None:
            return self._at(draws, n)
        with _largest_result() as largest, _explained(self._batch):
            first = self._output({name: value[0] for name, value in draws.items()})
        budget = FLOATS_A_PASS["cpu" if first.device.type == "cpu" else "accelerator"]
        self._chunk = max(1, budget // max(1, first.numel(), *largest))
        if n == 1:
            return first[None]
        return torch.cat([first[None], self._at({name: value[1:] for name, value in draws.items()}, n - 1)])

    def _at(self, draws: Weights, n: int) -> Tensor:
        chunk = self._chunk or 1
        if self._vmap or (self._vmap is None and min(chunk, n) >= VMAP_FROM):
            vmapped = torch.vmap(self._output, chunk_size=chunk, randomness="error")
            try:
                with warnings.catch_warnings(), _OneRow():
                    if not self._vmap:
                        warnings.filterwarnings("error", message="There is a performance drop")
                    return vmapped(draws)
            except Exception:  # the same pass went well alone, so this module is one that vmap cannot do
                if self._vmap:
                    raise
                self._vmap = False
        return torch.stack([self._output({name: value[s] for name, value in draws.items()}) for s in range(n)])

    def _output(self, weights: Weights) -> Tensor:
        self._signals.let_through()
        with self._inputs.unwritten() as (args, kwargs):
            try:
                return tensor_of(functional_call(self._model, weights | self._buffers.unwritten(), args, kwargs))
            finally:
                self._forget()


class _Buffers:
    """Copies of a model's buffers, to which a forward pass may write: one for all batches, as masks and tables may be large."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._copies: Weights = {}

    def unwritten(self) -> Weights:
        """Return the copies; new ones if the pass before may have written to them."""
        copies = self._copies
        if not copies or any(buffer.is_inference() or buffer._version for buffer in copies.values()):
            self._copies = {name: buffer.clone() for name, buffer in self._model.named_buffers()}
        return self._copies


class _Inputs:
    """The arguments for a batch, or copies of them for a model that writes to its inputs, as a normalisation in place does."""

    def __init__(self, batch: Any) -> None:
        self._given = arguments_of(batch)
        self._are_written: bool | None = None  # known after the first pass

    @contextmanager
    def unwritten(self) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
        """Yield the arguments as they were given to a pass."""
        taken = self._given if self._are_written is False else copied(self._given)
        yield taken
        if self._are_written is None:
            tensors = [value for value in tree_leaves(taken) if isinstance(value, Tensor)]
            self._are_written = any(value.is_inference() or value._version for value in tensors)


class _OneRow(TorchFunctionMode):
    """Multiplies one row by many matrices in a loop of our own, under vmap: torch's products take two to five times as long."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is not linear or args[0].dim() != 2 or len(args[0]) != 1:
            return function(*args, **(kwargs or {}))
        x, weight, bias = _linear_arguments(*args, **(kwargs or {}))
        level, other = functorch.maybe_get_level(weight), functorch.maybe_get_level(x)
        if not functorch.is_batchedtensor(weight) or other not in (level, UNMAPPED):
            return linear(x, weight, bias)
        rows = x[None] if other == UNMAPPED else _unmapped(x)
        product = functorch._add_batch_dim(rows_times_matrices(rows, _unmapped(weight)), 0, level)
        return product if bias is None else product + bias


def _linear_arguments(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
    return x, weight, bias


def _unmapped(x: Tensor) -> Tensor:
    """Return the tensor behind a tensor that vmap maps over, the mapped axis first."""
    return functorch.get_unwrapped(x).movedim(functorch.maybe_get_bdim(x), 0)


def _unwrapped(model: nn.Module) -> tuple[nn.Module, str]:
    """Return the module without ``torch.compile``, DDP, DataParallel and Fabric around it, and what they add to names of parameters."""
    prefix = ""
    if isinstance(model, torch.jit.ScriptModule):
        raise TypeError("a compiled TorchScript module keeps its own weights: give the module that it was made from")
    while True:
        name = "module" if isinstance(model, DataParallel | DistributedDataParallel) else "_orig_mod"
        name = "_forward_module" if is_fabric_module(model) else name
        inner = model._modules.get(name)
        if inner is None:
            return model, prefix
        model, prefix = inner, f"{prefix}{name}."


def _refuse_sharded(model: nn.Module) -> None:
    """Raise if FSDP2 shards the model: its forward passes gather the mean in place of the draws."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    if any(is_sharded(p) for p in model.parameters()) or (
        fsdp is not None and any(isinstance(module, fsdp.FSDPModule) for module in model.modules())
    ):
        raise ValueError(
            "the model is sharded, and its forward passes would use the mean instead of the draws: predict with one that is not. "
            "opt.posterior(model) is whole on every rank and fits a model that was built anew"
        )


def _checked(draws: Weights, model: nn.Module, n: int) -> Weights:
    """Return the draws keyed by the model's parameter names; raise if a name or a shape does not fit."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    in_order = [name for name, _ in model.named_parameters()]
    if not draws.keys() <= parameters.keys() and draws.keys() == {str(i) for i in range(len(in_order))}:
        draws = {in_order[int(i)]: value for i, value in draws.items()}  # of an optimizer that saw model.parameters()
    if unknown := sorted(draws.keys() - parameters.keys()):
        raise ValueError(
            f"the posterior has weights {unknown[:5]} that the model has not; the model's are {in_order[:5]}, … "
            "If the optimizer was built from unnamed parameters, take opt.posterior(model)"
        )
    for name, value in draws.items():
        if value.shape != (n, *parameters[name].shape):
            expected = [n, *parameters[name].shape]
            raise ValueError(
                f"{n} draws of {name!r} must have shape {expected}, got {list(value.shape)}: take the posterior of this model"
            )
    return draws


def _begun(batches: Iterator[Any]) -> Iterator[Any]:
    """Return the batches, of which the first is read: what a loader draws to begin comes before the draws of the weights."""
    for first in batches:
        return chain([first], batches)
    raise ValueError("x holds no batch: give at least one")


def _batches(x: Any, model: nn.Module) -> Iterator[Any]:
    if isinstance(x, Tensor | tuple | Mapping):
        yield x
        return
    _refuse_array("x", x)
    if not isinstance(x, Iterable):
        raise TypeError(
            f"x is a {type(x).__name__}: give a tensor, a tuple or dict of tensors, or an iterable of these"
        )
    for batch in x:
        inputs = _without_target(batch, model, from_loader=isinstance(x, DataLoader))
        _refuse_array("a batch of x", inputs)
        yield inputs


def _refuse_array(name: str, x: Any) -> None:
    """Raise TypeError for an array or a data frame: its type of numbers is seldom the model's."""
    if hasattr(x, "__array__") and not isinstance(x, Tensor):
        raise TypeError(
            f"{name} is a {type(x).__name__}: give a tensor, a tuple or dict of tensors, or an iterable of these"
        )


def _without_target(batch: Any, model: nn.Module, from_loader: bool) -> Any:
    """Return the inputs of a batch (x, y): its last tensor is left out if the model does not take it.

    A ``DataLoader`` yields targets as a rule, so there an argument that the model does not need is a target, too. Where it needs
    none, as those of Hugging Face do, a last tensor with fewer axes than the first, such as labels beside tokens, is the target.
    """
    if not isinstance(batch, tuple | list) or len(batch) < 2:
        return batch
    parameters = inspect.signature(model.forward).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return batch
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in positional if p.default is p.empty] if from_loader else positional
    if from_loader and not needed and len(batch) <= len(positional):
        _refuse_unless_labels(batch, model, positional[0].name, positional[1].name)
    return tuple(batch[:-1]) if len(needed) < len(batch) <= len(positional) + 1 else batch


def _refuse_unless_labels(batch: Any, model: nn.Module, *names: str) -> None:
    """Raise ValueError if the last tensor of a batch could be an input: labels have fewer axes than the first."""
    first, last = batch[0], batch[-1]
    if not (isinstance(first, Tensor) and isinstance(last, Tensor) and last.dim() < first.dim()):
        raise ValueError(
            f"{type(model).__name__} needs none of its arguments, so the last of the {len(batch)} tensors of a batch may be an input or "
            f"the target: give batches that are dicts of arguments by name, such as {' and '.join(map(repr, names))}"
        )


def _pieces(batch: Any, batch_size: int | None) -> Iterator[Any]:
    if batch_size is None:
        yield batch
        return
    args, kwargs = arguments_of(batch)
    lengths = {len(value) for value in (*args, *kwargs.values()) if _has_rows(value)}
    if len(lengths) != 1:
        raise ValueError(
            f"batch_size={batch_size} needs inputs of one length to cut, but their lengths are {sorted(lengths)}: leave batch_size out"
        )
    for start in range(0, max(1, *lengths), batch_size):
        rows = slice(start, start + batch_size)
        if isinstance(batch, Mapping):
            yield {name: value[rows] if _has_rows(value) else value for name, value in batch.items()}
        elif isinstance(batch, Tensor):
            yield batch[rows]
        else:
            yield tuple(value[rows] if _has_rows(value) else value for value in batch)


def _wide(outputs: Tensor) -> Tensor:
    """Convert outputs to float32 or wider, so that means over draws and tails of distributions are accurate."""
    return outputs.to(torch.promote_types(outputs.dtype, torch.float32))


def _has_rows(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0


def tensor_of(output: Any) -> Tensor:
    """Return the output of a model, or its logits as Hugging Face models return them; raise TypeError for anything else."""
    output = getattr(output, "logits", output)
    if not isinstance(output, Tensor) or output.dim() == 0:
        raise TypeError(
            f"the model returned {type(output).__name__}, but a prediction needs one tensor whose first axis is "
            "the batch: wrap the model in a module that returns that tensor"
        )
    return output


def arguments_of(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a model by position and by name."""
    if isinstance(batch, Mapping):
        return (), dict(batch)
    return (tuple(batch) if isinstance(batch, tuple | list) else (batch,)), {}


def copied(arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments with a copy of each tensor, to which a forward pass may write."""
    return tree_map_only(Tensor, Tensor.clone, arguments)


@contextmanager
def _explained(batch: Any) -> Iterator[None]:
    try:
        yield
    except TypeError as error:
        if isinstance(batch, tuple | list):
            error.add_note("A tuple holds the model's arguments. Leave targets out: predict(model, post, x)")
        raise


@contextmanager
def _largest_result() -> Iterator[list[int]]:
    """Record the number of elements of each tensor that a module returns in the forward passes of this context."""
    sizes: list[int] = []

    def record(_module: nn.Module, _args: Any, result: Any) -> None:
        results = result if isinstance(result, tuple | list) else (result,)
        sizes.extend(value.numel() for value in results if isinstance(value, Tensor))

    hook = register_module_forward_hook(record)
    try:
        yield sizes
    finally:
        hook.remove()
