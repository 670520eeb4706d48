from collections import UserDict
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from vadam.baselines import DeepEnsemble
from vadam.likelihoods import Gaussian
from vadam.prediction import predict


def test_outputs_are_those_of_the_members(mlp, regression):
    X, y = regression
    ensemble = DeepEnsemble(members=4, prior_precision=0.5).fit(mlp, X, y, Gaussian(4.0), epochs=5)
    expected = torch.stack([member.model(X) for member in ensemble.members]).detach()
    assert torch.equal(ensemble.outputs(X, samples=64), expected)
    assert torch.equal(ensemble.outputs((X,)), expected)
    prediction = predict(ensemble.model, ensemble, X, likelihood=Gaussian(4.0))
    torch.testing.assert_close(prediction.mean, expected.mean(0))
    assert (prediction.epistemic > 0).all()


class WithLogits(nn.Module):
    """Takes its argument by name and returns an object, as Hugging Face's models do."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 1).double()

    def forward(self, inputs):
        return SimpleNamespace(logits=self.layer(inputs))


def test_members_like_those_of_hugging_face_take_mappings_and_return_logits():
    X = torch.randn(5, 3, dtype=torch.float64)
    ensemble = DeepEnsemble(members=2)
    for member in ensemble.members:
        member.model = WithLogits()
    expected = torch.stack([member.model.layer(X) for member in ensemble.members]).detach()
    for x in ({"inputs": X}, UserDict(inputs=X)):
        assert torch.equal(predict(ensemble.model, ensemble, x, likelihood=Gaussian(1.0)).samples, expected)


class DoublingInPlace(WithLogits):
    def forward(self, inputs):
        return self.layer(inputs.mul_(2.0))


def test_members_that_write_to_their_inputs_see_them_as_given():
    X = torch.randn(5, 3, dtype=torch.float64)
    before = X.clone()
    ensemble = DeepEnsemble(members=3)
    for member in ensemble.members:
        member.model = DoublingInPlace()
    expected = torch.stack([member.model.layer(2.0 * X) for member in ensemble.members]).detach()
    torch.testing.assert_close(ensemble.outputs(X), expected)
    assert torch.equal(X, before)


def test_members_keep_their_own_buffers(regression):
    """Batch statistics belong to a member, so the weights alone are not enough."""
    X, y = regression
    ensemble = DeepEnsemble(members=2).fit(
        lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).double(),
        X,
        y,
        Gaussian(1.0),
        epochs=2,
    )
    means = [member.model[1].running_mean for member in ensemble.members]
    assert not torch.equal(*means)
    before = means[0].clone()
    predict(ensemble.model, ensemble, X)
    assert torch.equal(ensemble.members[0].model[1].running_mean, before)


def test_a_module_is_refused(mlp, regression):
    with pytest.raises(
        TypeError, match=r"pass a function that returns a new one, e.g. lambda: Sequential\(...\), not a module"
    ):
        DeepEnsemble().fit(mlp(), *regression, Gaussian(1.0))


def test_members_are_in_evaluation_mode_and_take_batches_of_a_loader(regression):
    X, y = regression
    ensemble = DeepEnsemble(members=2).fit(
        lambda: nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1)).double(), X, y, Gaussian(1.0), epochs=1
    )
    expected = ensemble.outputs(X)
    for member in ensemble.members:
        member.model.train()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X), batch_size=7)
    prediction = predict(ensemble.model, ensemble, loader, likelihood=Gaussian(1.0))
    torch.testing.assert_close(prediction.samples, expected)
    assert all(member.model.training for member in ensemble.members)
