"""Carrying an optimizer elsewhere: checkpoints, copies, pickles. Resuming is bit-exact, the random state included."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import torch
from torch.optim import Optimizer

from vadam.optim import checks

_EXTRA = "vadam"


class Resumable(Optimizer):
    """A torch optimizer that also carries its generator, its count of skipped steps, and state wider than its parameters."""

    samples: int
    antithetic: bool
    nonfinite: str
    generator: torch.Generator | None
    skipped_steps: int

    if TYPE_CHECKING:

        def _check(self, group: dict[str, Any]) -> None: ...
        def _language(self, group: dict[str, Any]) -> Any: ...
        def _forget(self) -> None: ...
        def eval(self) -> None: ...

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group; its arguments are checked like the constructor's."""
        if isinstance(param_group, dict):
            unknown = set(param_group) - set(self.defaults) - {"params", "param_names", "initial_lr"}
            if unknown:
                known = ", ".join(sorted(self.defaults))
                raise ValueError(
                    f"unknown argument {sorted(unknown)[0]!r} in a parameter group: {type(self).__name__} takes {known}"
                )
            group = {**self.defaults, **{k: v for k, v in param_group.items() if k != "params"}}
            checks.deterministic(group)
            self._check(group)
            param_group.update(group)
        super().add_param_group(param_group)
        for p in self.param_groups[-1]["params"]:
            if not p.is_floating_point():
                self.param_groups.pop()
                raise ValueError(
                    f"a parameter of dtype {p.dtype} cannot be given a Gaussian posterior: only real floating-point can"
                )

    def state_dict(self) -> dict[str, Any]:
        """As torch's, with the random state. The parameters are left holding the mean."""
        self._to_mean("state_dict()")
        extra = {
            "optimizer": type(self).__name__,
            "rng_state": _generator(self.generator).get_state(),
            "skipped_steps": self.skipped_steps,
        }
        return super().state_dict() | {_EXTRA: extra}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As torch's. Restores the generator too: where none was given, torch's default one, as ``torch.set_rng_state`` does."""
        self._to_mean("load_state_dict()")
        self._forget()
        self._check_same_kind(state_dict)
        self.__dict__.pop("_packed", None)
        super().load_state_dict(state_dict)
        saved = chain.from_iterable(group["params"] for group in state_dict["param_groups"])
        for index, p in zip(saved, chain.from_iterable(g["params"] for g in self.param_groups), strict=True):
            for name, value in (
                state_dict["state"].get(index, {}).items()
            ):  # torch has cast these to the parameter's dtype
                if isinstance(value, torch.Tensor) and value.dtype != self.state[p][name].dtype:
                    self.state[p][name] = value.detach().to(self.state[p][name].device, copy=True)
        if _EXTRA in state_dict:
            self.skipped_steps = state_dict[_EXTRA]["skipped_steps"]
            _generator(self.generator).set_state(state_dict[_EXTRA]["rng_state"].cpu())

    def _check_same_kind(self, state_dict: dict[str, Any]) -> None:
        saved_by = state_dict.get(_EXTRA, {}).get("optimizer", type(self).__name__)
        if saved_by != type(self).__name__:
            raise ValueError(f"this checkpoint is of a {saved_by}, not of a {type(self).__name__}")
        groups = state_dict["param_groups"]
        if len(groups) != len(self.param_groups):
            return
        for ours, theirs in zip(self.param_groups, groups, strict=True):
            group = {**self.defaults, **ours, **theirs}
            wanted = set(self._language(group).rule.State._fields[1:])
            for index, p in zip(theirs["params"], ours["params"], strict=False):
                saved = state_dict["state"].get(index, {})
                for name, value in saved.items():
                    if isinstance(value, torch.Tensor) and value.dim() and value.shape != p.shape:
                        raise ValueError(
                            f"this checkpoint is of another model: {name!r} of a parameter of shape {tuple(p.shape)} has shape "
                            f"{tuple(value.shape)}"
                        )
                found = set(saved or wanted)
                if not wanted <= found:
                    raise ValueError(
                        f"this checkpoint is not of a {type(self).__name__}: its state has {sorted(found)}, not {sorted(wanted)}"
                    )

    def _to_mean(self, what: str) -> None:
        if getattr(self, "_held", None) in ("context", "closure"):
            raise RuntimeError(f"{what} inside a sample: the parameters do not hold the mean. Leave the sample first")
        self.eval()

    def __getstate__(self) -> dict[str, Any]:
        self._to_mean("copying or pickling an optimizer")
        own = {
            k: v
            for k, v in self.__dict__.items()
            if not k.startswith("_") and k not in ("state", "param_groups", "defaults")
        }
        own.pop("step", None)
        generator = own.pop("generator")
        state = None if generator is None else (str(generator.device), generator.get_state())
        return {**super().__getstate__(), "_own": own, "_generator": state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        own, generator = state.pop("_own", None), state.pop("_generator", None)
        super().__setstate__(state)
        if own is None:  # load_state_dict comes this way too, and brings nothing of our own
            return
        self.__dict__.update(own)
        self.generator = None
        if generator is not None:
            self.generator = torch.Generator(generator[0])
            self.generator.set_state(generator[1])
        self.__dict__.update(_attachment=None, _sample=None)
        self._forget()


def _generator(generator: torch.Generator | None) -> torch.Generator:
    return torch.default_generator if generator is None else generator
