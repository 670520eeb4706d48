"""Checkpoints, copies and pickles of an optimizer. Resuming is bit-exact, the random state included."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from vadam.optim import checks, prior
from vadam.rules.binding import RuleArgs, scalar_fields, scope, shapes_of

if TYPE_CHECKING:
    from types import ModuleType

    from vadam.optim.sample import WeightState

_EXTRA = "vadam"


class Resumable(Optimizer):
    """A torch optimizer that also carries its generator, its count of skipped steps, and state wider than its parameters."""

    generator: torch.Generator | None
    _skipped: int
    _pending: Any
    _caches: list[Any]

    if TYPE_CHECKING:
        rule: ModuleType
        _weights: WeightState

        def _check(self, group: dict[str, Any]) -> None: ...
        def _rule_and_numbers(self, group: dict[str, Any]) -> tuple[ModuleType, RuleArgs]: ...
        def _start_afresh(self) -> None: ...
        def _reset_step(self) -> None: ...
        def _heal(self) -> None: ...
        def _settle(self) -> None: ...
        def eval(self) -> None: ...
        def _sampled(self) -> list[torch.Tensor]: ...
        def _buckets(self, params: Any = None, *, sampled: bool = False) -> Any: ...
        @property
        def _backend(self) -> Any: ...

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a copy of a group; its arguments are checked like the constructor's.

        The given dict keeps only what was written into it, so that another optimizer may take it with its own defaults.
        """
        given = None
        if isinstance(param_group, dict):
            if isinstance(param_group.get("params"), Iterator):
                param_group["params"] = [*param_group["params"]]  # model.parameters() can be read only once
            unknown = set(param_group) - set(self.defaults) - {"params", "param_names", "initial_lr"}
            if unknown:
                known = ", ".join(sorted(self.defaults))
                raise ValueError(
                    f"unknown argument {sorted(unknown)[0]!r} in a parameter group: {type(self).__name__} takes {known}"
                )
            group = {**self.defaults, **{k: v for k, v in param_group.items() if k != "params"}}
            checks.deterministic(group)
            given = group.get("prior")
            self._check(group)
            param_group = {**param_group, **group}
        super().add_param_group(param_group)
        try:
            checks.refuse_other_sharding(type(self).__name__, self.param_groups[-1]["params"])
        except ValueError:
            self.param_groups.pop()
            raise
        for p in self.param_groups[-1]["params"]:
            if not p.is_floating_point():
                self.param_groups.pop()
                raise ValueError(
                    f"a parameter of dtype {p.dtype} cannot be given a Gaussian posterior: leave it out, only real floating-point ones can"
                )
            if not is_lazy(p) and 0 in [stride for stride, size in zip(p.stride(), p.shape, strict=True) if size > 1]:
                self.param_groups.pop()
                raise ValueError(
                    f"weights of a parameter of shape {tuple(p.shape)} share one place in memory, as expand() leaves them, and cannot "
                    f"be sampled one by one: make the parameter from a clone()"
                )
        try:
            prior.place(self, self.param_groups[-1], given)  # type: ignore[arg-type]
        except ValueError:
            self.param_groups.pop()
            raise

    def state_dict(self) -> dict[str, Any]:
        """Return torch's state_dict with the random state. The parameters are left holding the mean."""
        self._to_mean("state_dict()")
        self._settle()
        if any(state and not set(state) - {*prior.FIELDS} for state in self.state.values()):
            self._buckets()  # torch.distributed.checkpoint loads no state into an optimizer that has a part of it
        extra = {
            "optimizer": type(self).__name__,
            "rng_state": _generator(self.generator).get_state(),
            "device_rng_states": {str(d): torch.cuda.get_rng_state(d) for d in self._devices_with_noise()},
            "skipped_steps": self._skipped,
        }
        return _without_numpy(super().state_dict()) | {_EXTRA: extra}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a checkpoint as torch does, and restore the generator: where none was given, torch's default one.

        A checkpoint that is refused changes nothing.
        """
        self._to_mean("load_state_dict()")
        self._reset_step()
        generator = _generator(self.generator)
        before = self.state, self.param_groups, self._skipped, generator.get_state()
        try:
            self._load(state_dict, generator)
            self._caches.clear()
            self._refuse_unsound_precisions()
        except BaseException:
            self.__dict__["state"], self.__dict__["param_groups"], self._skipped, random = before
            generator.set_state(random)
            raise
        finally:
            self._caches.clear()  # they hold the state that the checkpoint replaces
        self._pending = None  # of a step that the checkpoint undoes

    def _load(self, state_dict: dict[str, Any], generator: torch.Generator) -> None:
        seen: dict[str, Any] = {}

        def look(_: Optimizer, adapted: dict[str, Any]) -> None:
            self._check_same_kind(adapted)
            seen.update(adapted)

        handle = self.register_load_state_dict_pre_hook(look)  # behind the user's own, which may adapt the checkpoint
        try:
            super().load_state_dict(state_dict)
        finally:
            handle.remove()
        self._keep_dtypes(seen)
        if _EXTRA in seen:
            self._skipped = int(seen[_EXTRA]["skipped_steps"])
            generator.set_state(seen[_EXTRA]["rng_state"].cpu())
            for device, rng_state in seen[_EXTRA].get("device_rng_states", {}).items():
                if torch.cuda.is_available():
                    torch.cuda.set_rng_state(rng_state.cpu(), device)

    def _refuse_unsound_precisions(self) -> None:
        """Raise if the loaded state gives a weight a precision that nothing can be drawn from; looked at on the CPU only."""
        learned = [p for p in self._sampled() if p.is_cpu and set(self.state.get(p, ())) - {*prior.FIELDS}]
        buckets = self._buckets(learned, sampled=True) if learned else ()
        for bucket in [bucket for bucket in buckets if scope(bucket.rule) != "model"]:
            P = self._backend.precision(bucket)
            if not bool(((P > 0) & P.isfinite()).all()):
                raise ValueError(
                    f"this checkpoint is damaged: it gives a weight the precision {float(P.min())!r}, which must be positive and finite"
                )

    def _devices_with_noise(self) -> set[torch.device]:
        """Return the GPUs whose default generator gives the noise."""
        if self.generator is not None or not torch.cuda.is_available():
            return set()
        return {p.device for group in self.param_groups for p in group["params"] if p.is_cuda}

    def _keep_dtypes(self, saved: dict[str, Any]) -> None:
        """Undo torch's cast of the state to the dtype of half-precision parameters; scalars are numbers of the host."""
        indices = chain.from_iterable(group["params"] for group in saved["param_groups"])
        for group in self.param_groups:
            rule, _ = self._rule_and_numbers(group)
            for p in group["params"]:
                values = saved["state"].get(next(indices), {})
                for name, value in values.items():
                    if name in scalar_fields(rule):
                        self.state[p][name] = float(value)
                    elif isinstance(value, torch.Tensor) and p.dtype.itemsize < 4:
                        self.state[p][name] = value.detach().to(self.state[p][name].device, copy=True)

    def _check_same_kind(self, state_dict: dict[str, Any]) -> None:
        saved_by = state_dict.get(_EXTRA, {}).get("optimizer", type(self).__name__)
        if saved_by != type(self).__name__:
            raise ValueError(
                f"this checkpoint is of a {saved_by}, not of a {type(self).__name__}: load it into a {saved_by}"
            )
        groups = state_dict["param_groups"]
        if len(groups) != len(self.param_groups):
            return
        for ours, theirs in zip(self.param_groups, groups, strict=True):
            self._check_group(theirs)
            rule, _ = self._rule_and_numbers({**self.defaults, **ours, **theirs})
            wanted = set(rule.State._fields[1:])
            for index, p in zip(theirs["params"], ours["params"], strict=False):
                saved = state_dict["state"].get(index, {})
                learned = set(saved) - {*prior.FIELDS}
                for name, value in saved.items():
                    if name in wanted:
                        _check_value(name, value, is_scalar=name in scalar_fields(rule))
                    # Others are left from before the group became deterministic.
                    known = name in wanted or name in prior.FIELDS
                    of_weights = known and isinstance(value, torch.Tensor) and value.dim() and scope(rule) != "model"
                    if of_weights and tuple(value.shape) not in shapes_of(rule, name, p.shape):
                        raise ValueError(
                            f"this checkpoint is of another model: {name!r} of a parameter of shape {tuple(p.shape)} has shape "
                            f"{tuple(value.shape)}"
                        )
                if learned and not wanted <= learned:
                    raise ValueError(
                        f"this checkpoint is not of a {type(self).__name__}: its state has {sorted(learned)}, not {sorted(wanted)}"
                    )

    def _check_group(self, group: dict[str, Any]) -> None:
        """Refuse a group of a checkpoint that lacks an argument or has a wrong one."""
        declared = {argument.name: argument for argument in self.rule.ARGUMENTS}
        if missing := sorted({*declared, "deterministic"} - set(group)):
            raise ValueError(
                f"this checkpoint is damaged, or of another optimizer than {type(self).__name__}: its parameter group has no {missing[0]!r}"
            )
        checks.deterministic(group)
        for name, argument in declared.items():  # each alone: a learned prior may have passed the start
            if name != "prior" or not isinstance(group[name], str):
                argument.check(group[name])

    def _is_checkpoint_probe(self, grads: dict[torch.Tensor, torch.Tensor]) -> bool:
        """Make the state if torch.distributed.checkpoint asks for it: by a first step with lr = 0 and zero gradients."""
        is_fresh = not any(set(state) - {*prior.FIELDS} for state in self.state.values())
        asked = is_fresh and all(group["lr"] == 0 for group in self.param_groups)
        if asked and not any(bool(g.any()) for g in grads.values()):
            self._buckets()
            return True
        return False

    def _to_mean(self, subject: str) -> None:
        if "_weights" not in self.__dict__:
            return
        self.eval()
        if self._weights.owner is not None:
            raise RuntimeError(
                f"{subject} inside a sample: the parameters do not hold the mean. Leave the sample first"
            )

    def __getstate__(self) -> dict[str, Any]:
        self._to_mean("copying or pickling an optimizer")
        self._settle()
        own = {
            k: v
            for k, v in self.__dict__.items()
            if not k.startswith("_") and k not in ("state", "param_groups", "defaults")
        }
        own.pop("step", None)
        generator = own.pop("generator")
        state = None if generator is None else (str(generator.device), generator.get_state())
        return {**super().__getstate__(), "_own": {**own, "_skipped": self._skipped}, "_generator": state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        own, generator = state.pop("_own", None), state.pop("_generator", None)
        super().__setstate__(state)
        if own is None:  # load_state_dict comes this way too, and brings nothing of our own
            return
        self._start_afresh()
        self.__dict__.update(own)
        self.generator = None
        if generator is not None:
            self.generator = torch.Generator(generator[0])
            self.generator.set_state(generator[1])


def _without_numpy(value: Any) -> Any:
    """Return a checkpoint with numbers of Python for those of numpy, which ``torch.load`` refuses by default."""
    if isinstance(value, dict):
        return {key: _without_numpy(x) for key, x in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_without_numpy, value))
    return value.item() if isinstance(value, np.generic) else value


def _check_value(name: str, value: Any, *, is_scalar: bool) -> None:
    """Refuse a value of a checkpoint that is neither the number nor the tensor that its field holds."""
    is_tensor = isinstance(value, torch.Tensor) and value.is_floating_point()
    if not (is_tensor or (is_scalar and isinstance(value, (int, float)))):
        raise ValueError(f"this checkpoint is damaged: {name!r} of its state is {value!r}")


def _generator(generator: torch.Generator | None) -> torch.Generator:
    return torch.default_generator if generator is None else generator
