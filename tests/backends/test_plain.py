"""The plain backend: chunks, means that are not kept, parameters with states of their own."""

import gc

import pytest
import torch
from torch import nn

import vadam
from specs import SPECS, Problem, Spec, same, snapshot
from vadam.backends import chunks

MEAN_FIELD = [spec for spec in SPECS if spec.mean_field]


def trained(spec: Spec, steps: int = 3, dtype: torch.dtype = torch.float64, **options: object) -> list[torch.Tensor]:
    problem = Problem(dtype)
    options = {"generator": torch.Generator().manual_seed(1), "backend": "plain", **options}
    opt = spec.make_for(problem.model, **options)
    for _ in range(steps):
        problem.step(opt, spec)
    return problem.weights() + snapshot(opt)


@pytest.mark.usefixtures("same_noise")
@pytest.mark.parametrize("spec", MEAN_FIELD, ids=str)
def test_chunks_change_nothing(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    """The 21 weights in a chunk of 16 and the rest, with noise that chunks do not change."""
    whole = trained(spec, dtype=torch.float32)
    monkeypatch.setattr(chunks, "GRAIN", 8)
    monkeypatch.setattr(chunks, "CHUNK", 16)
    assert same(trained(spec, dtype=torch.float32), whole)


@pytest.mark.parametrize("spec", MEAN_FIELD, ids=str)
def test_the_mean_from_noise_drawn_again(spec: Spec) -> None:
    """θ = μ + d and then θ − d are each rounded once, relative to θ: in float64 a few 1e-16 a step."""
    for ours, kept in zip(trained(spec, store_mean=False), trained(spec), strict=True):
        torch.testing.assert_close(ours, kept, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("backend", ["plain", "auto"])
def test_without_a_stored_mean_a_sample_needs_no_memory_of_its_own(backend: str, dtype: torch.dtype) -> None:
    """Count the bytes of tensors that came to life with the sample: none that live on has the size of the weights."""
    ones = torch.ones(100_003, dtype=dtype)
    w = nn.Parameter(ones.clone())
    opt = vadam.Vadam([w], num_data=1, store_mean=False, backend=backend)
    opt.posterior()  # makes the state
    before = living_bytes()
    with opt.sampled_params():
        assert living_bytes() - before < w.numel()
        assert not torch.equal(w, ones)
        tolerance = 1e-15 if dtype == torch.float64 else 1e-6
        torch.testing.assert_close(opt.posterior().mean["0"], ones, rtol=0, atol=tolerance)
    torch.testing.assert_close(w.detach(), ones, rtol=0, atol=tolerance)


def living_bytes() -> int:
    gc.collect()
    storages = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in tensors(gc.get_objects())}
    return sum(storages.values())


def tensors(objects: list[object]) -> list[torch.Tensor]:
    return [x for x in objects if type(x) in (torch.Tensor, nn.Parameter)]  # type: ignore[misc]


@pytest.mark.parametrize("backend", ["plain", "auto"])
def test_half_precision_keeps_its_mean(backend: str) -> None:
    """bfloat16 has 8 bits: taking the deviation away again would not give the mean."""
    w = nn.Parameter(torch.linspace(-1, 1, 100, dtype=torch.bfloat16))
    before = w.detach().clone()
    opt = vadam.Vadam([w], num_data=1, store_mean=False, backend=backend)
    with opt.sampled_params():
        assert not torch.equal(w, before)
    assert torch.equal(w, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("backend", ["plain", "auto"])
def test_parameters_that_missed_steps_have_their_own_correction(backend: str, dtype: torch.dtype) -> None:
    """Two weights of one bucket, one without a gradient at first: each is as it would be alone."""

    def run(which: tuple[int, ...]) -> list[torch.Tensor]:
        weights = [nn.Parameter(torch.full((2,), 1.0 + k, dtype=dtype)) for k in range(2)]
        hardly_any_noise = {"prior_precision": 1e12, "num_data": 10}
        opt = vadam.Vadam([weights[k] for k in which], lr=0.1, backend=backend, **hardly_any_noise)
        for step in range(4):
            opt.zero_grad()
            with opt.sampled_params():
                loss = sum(weights[k].square().sum() for k in which if k == 0 or step > 1)
                if loss:
                    loss.backward()
            if loss:
                opt.step()
        return [weights[k].detach() for k in which]

    together = run((0, 1))
    for k in range(2):
        torch.testing.assert_close(together[k], run((k,))[0], rtol=1e-4, atol=0)
