"""Buckets: every weight once, of one kind, gathered and scattered in one piece."""

import pytest
import torch

from vadam import rules
from vadam.backends import bucket
from vadam.backends.bucket import Bucket, make_buckets


def states_of(weights: list[torch.Tensor]) -> list[dict[str, object]]:
    return [{"s": w.clone(), "gamma": 1.0} for w in weights]


def kinds_of_weights() -> list[torch.Tensor]:
    shapes = [(3,), (), (0,), (5, 2), (1, 1), (4,), (7,)]
    odd = [torch.randn(2, 3, 4).transpose(0, 2), torch.randn(3).double(), torch.randn(4).bfloat16()]
    return [torch.randn(shape) for shape in shapes] + odd


@pytest.mark.parametrize("limit", [0, 12, 28, 1 << 16])
def test_buckets_hold_every_weight_once(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(bucket.LIMIT, "cpu", limit)
    weights = kinds_of_weights()
    buckets = make_buckets(rules.von, {}, weights, states_of(weights), sampled=True)
    found = [part for each in buckets for part in each.parts()]
    assert {id(w) for each in found for w in each.params} == {id(w) for w in weights}
    assert sum(len(each.params) for each in found) == len(weights)
    for each in found:
        assert len({w.dtype for w in each.params}) == 1
        assert each.size <= limit or len(each.params) == 1


def test_what_is_gathered_can_be_scattered() -> None:
    weights = kinds_of_weights()
    for each in make_buckets(rules.von, {}, weights, states_of(weights), sampled=True):
        before = [w.clone() for w in each.params]
        mu, s = each.gather(each.params, each.field("s"))
        assert mu.numel() == s.numel() == each.size
        assert mu.dtype == each.dtype
        for part, w in zip(each.split(mu), each.params, strict=True):
            assert torch.equal(part, w.to(each.dtype))
        each.scatter([mu.mul_(2), s + 1], each.params, each.field("s"))
        assert all(torch.equal(w, 2 * b) for w, b in zip(each.params, before, strict=True))
        assert all(torch.equal(x, b + 1) for x, b in zip(each.field("s"), before, strict=True))


def test_a_single_tensor_is_not_copied() -> None:
    for w in (torch.randn(2, 3), torch.randn(2, 3).t(), torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)):
        alone = Bucket(rules.von, {}, [w], states_of([w]))
        (vector,) = alone.gather([w])
        assert alone.is_view(vector)
        assert torch.equal(alone.split(vector)[0], w)


def test_a_half_precision_weight_stays_finite() -> None:
    w = torch.ones(2, dtype=torch.float16)
    Bucket(rules.von, {}, [w], states_of([w])).scatter([torch.tensor([1e9, -1e9])], [w])
    assert w.tolist() == [65504.0, -65504.0]


def test_parameters_whose_scalars_differ_are_not_computed_together() -> None:
    weights = [torch.ones(2) for _ in range(3)]
    states = [
        {"m": w, "s": w, "s0": 0.0, "gamma1_t": g, "gamma2_t": 1.0}
        for w, g in zip(weights, (1.0, 0.9, 1.0), strict=True)
    ]
    found = make_buckets(rules.vadam, {}, weights, states, sampled=True)
    assert [len(each.params) for each in found] == [2, 1]
    for each in found:
        each.set_scalars({"gamma1_t": 0.5})
    assert [state["gamma1_t"] for state in states] == [0.5] * 3
