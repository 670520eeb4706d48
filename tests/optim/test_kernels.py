"""Every fast path against the plain rule, in lock step, for every optimizer."""

import pytest
import torch
from torch import nn

import vadam
from specs import BY_NAME, SPECS, Problem, Spec, same, snapshot
from vadam.optim import kernels, pieces

MEAN_FIELD = [spec for spec in SPECS if spec.build is not vadam.FullVON]
ONE_OF_EACH_RULE = [BY_NAME[name] for name in ("Vadam", "Vprop", "VOGN", "VOGN-momentum", "VadaGrad", "BBVI", "IVON")]


def trained(spec: Spec, steps: int = 3, dtype: torch.dtype = torch.float64, **options: object) -> list[torch.Tensor]:
    problem = Problem(dtype)
    opt = spec.make_for(problem.model, generator=torch.Generator().manual_seed(1), **options)
    for _ in range(steps):
        problem.step(opt, spec)
    return problem.weights() + snapshot(opt)


@pytest.mark.parametrize("spec", MEAN_FIELD, ids=str)
def test_chunks_change_nothing(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = trained(spec)
    monkeypatch.setattr(kernels, "CHUNK", 16)
    assert same(trained(spec), whole)


@pytest.mark.parametrize("spec", ONE_OF_EACH_RULE, ids=str)
def test_compiled(spec: Spec) -> None:
    """The same equations and the same noise; sums and logarithms may be rounded otherwise. A fallback would warn."""
    for ours, plain in zip(trained(spec, compile=True), trained(spec), strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-9, atol=1e-12)


def test_compiled_in_single_precision_with_samples_and_pairs() -> None:
    options = {"dtype": torch.float32, "samples": 4, "antithetic": True}
    for ours, plain in zip(
        trained(BY_NAME["Vadam"], compile=True, **options), trained(BY_NAME["Vadam"], **options), strict=True
    ):
        torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-6)


def test_goes_on_where_nothing_can_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(f, **options):
        def run(*args):
            raise RuntimeError("no C++ compiler")

        return run

    plain = trained(BY_NAME["Vadam"])
    compiled = kernels._compiled, kernels._compiled_draw
    for cached in compiled:
        cached.cache_clear()
    monkeypatch.setattr(torch, "compile", broken)
    try:
        with pytest.warns(UserWarning, match="cannot be compiled here, so its steps are slower .*no C"):
            assert same(trained(BY_NAME["Vadam"], compile=True), plain)
    finally:
        for cached in compiled:
            cached.cache_clear()


@pytest.mark.parametrize("spec", MEAN_FIELD, ids=str)
def test_the_mean_from_noise_drawn_again(spec: Spec) -> None:
    """θ = μ + d and then θ − d are each rounded once, relative to θ: in float64 a few 1e-16 a step."""
    for ours, plain in zip(trained(spec, store_mean=False), trained(spec), strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-10, atol=1e-12)


def test_without_a_stored_mean_a_sample_needs_no_memory_of_its_own() -> None:
    w = nn.Parameter(torch.ones(3, dtype=torch.float64))
    opt = vadam.Vadam([w], num_data=1, store_mean=False)
    with opt.sampled_params():
        assert not torch.equal(w, torch.ones(3, dtype=torch.float64))
        assert opt._sample is not None
        assert opt._sample.means == [None]
        torch.testing.assert_close(opt.posterior().mean["0"], torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(w.detach(), torch.ones(3, dtype=torch.float64), rtol=0, atol=1e-15)


def test_half_precision_keeps_its_mean() -> None:
    """bfloat16 has 8 bits: taking the deviation away again would not give the mean."""
    w = nn.Parameter(torch.linspace(-1, 1, 100, dtype=torch.bfloat16))
    before = w.detach().clone()
    opt = vadam.Vadam([w], num_data=1, store_mean=False)
    with opt.sampled_params():
        pass
    assert torch.equal(w, before)


@pytest.mark.parametrize("small", [0, 7, 1 << 16])
def test_packs_hold_every_weight_once(small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "SMALL", small)
    monkeypatch.setattr(pieces, "PACK", 12)
    shapes = [(3,), (), (0,), (5, 2), (1, 1), (4,), (7,)]
    weights = [torch.randn(shape) for shape in shapes] + [torch.randn(2, 3, 4).transpose(0, 2), torch.randn(3).double()]
    found = pieces.pack({}, None, [(w, {}) for w in weights])
    assert {id(w) for piece in found for w in piece.params} == {id(w) for w in weights}
    assert sum(len(piece.params) for piece in found) == len(weights)
    for piece in found:
        before = [w.clone() for w in piece.params]
        vector = piece.vector(piece.params)
        assert vector.numel() == piece.size
        assert len({w.dtype for w in piece.params}) == 1
        vector = vector.mul_(2)
        piece.write(vector, piece.params)
        assert all(torch.equal(w, 2 * b) for w, b in zip(piece.params, before, strict=True))


def test_parameters_that_missed_steps_have_their_own_correction() -> None:
    """Two packed weights, one without a gradient at first: each is as it would be alone."""

    def run(which: tuple[int, ...]) -> list[torch.Tensor]:
        weights = [nn.Parameter(torch.full((2,), 1.0 + k, dtype=torch.float64)) for k in range(2)]
        opt = vadam.Vadam([weights[k] for k in which], lr=0.1, num_data=10, prior_precision=1e12)  # hardly any noise
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
