"""Every promise on every backend and device: rows of ``specs`` run on plain and native, one test of each promise also compiled.

A test that takes a ``spec`` and no ``backend`` of its own is repeated here: "auto" becomes the backend, and problems get the dtype that
it is made for. Compiling a rule takes seconds, so "compiled" runs the tests in ``COMPILED`` with the rows in ``COMPILED_ROWS``: a state
with scalars and ĥ = ĝ∘ĝ, and a state of vectors alone with a curvature. Every other row runs ``test_compiled_rows.py``, its main promises
in one test, and ``tests/backends/test_lockstep.py``. Where there is a GPU, all rows run on it, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache
from typing import Any

import pytest
import torch

import vadam
from devices import DEVICES
from specs import Problem

DTYPES = {"plain": torch.float64, "native": torch.float32, "compiled": torch.float64}
COMPILED = {
    "test_an_exception_in_the_closure_restores_the_mean",
    "test_an_exception_in_the_context_restores_the_mean_and_the_estimate",
    "test_weights_are_changed_in_place",
    "test_noise_comes_from_the_given_generator_alone",
    "test_resume_from_a_state_dict_is_bit_exact",
    "test_copies_train_on_as_the_original_would",
    "test_frozen_and_unused_parameters",
    "test_groups_have_their_own_priors",
    "test_a_deterministic_group_is_trained_and_not_sampled",
    "test_schedulers_change_the_rate",
    "test_posterior_is_a_snapshot",
    "test_norm_clipping_equals_scaling_the_loss",
    "test_accumulation_over_micro_batches_equals_the_whole_batch",
    "test_nonfinite_gradients_are_refused_or_skipped",
}
COMPILED_ROWS = {"Vadam", "VON"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat tests of rows on every backend."""
    names = metafunc.fixturenames
    if "spec" not in names or "backend" in names or "contract_backend" not in names:
        return
    compiled = metafunc.function.__name__ in COMPILED
    backends = [*DTYPES][: 3 if compiled else 2]
    metafunc.parametrize("contract_backend", [*backends, *DEVICES[1:]], indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out the compiled rows that others stand for."""
    items[:] = [item for item in items if not _is_left_out(getattr(item, "callspec", None))]


def _is_left_out(callspec: Any) -> bool:
    params = {} if callspec is None else callspec.params
    return params.get("contract_backend") == "compiled" and str(params["spec"]) not in COMPILED_ROWS


@pytest.fixture(autouse=True)
def contract_backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let "auto" be the backend of this repetition, or problems be on its device, with problems of its dtype."""
    given: Any = getattr(request, "param", None)
    if given is None:
        yield
        return
    if given == "native":
        pytest.importorskip("llvmlite")
    device, backend = ("cpu", given) if given in DTYPES else (given, "plain")
    real = vadam.backends.choose
    monkeypatch.setattr(vadam.backends, "choose", cache(lambda name: real(backend if name == "auto" else name)))
    monkeypatch.setattr(Problem, "dtype", DTYPES[backend])
    monkeypatch.setattr(Problem, "device", device)
    with nullcontext() if device == "cpu" else torch.device(device):  # where tests make tensors of their own
        yield
