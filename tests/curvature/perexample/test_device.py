"""Per-example squares on every device: nothing is read from it, and results are on the parameters' device.

Fake tensors raise ``DataDependentOutputException`` at any read. On the meta device they stand for an accelerator:
autograd refuses fake CUDA tensors in a torch that was built without CUDA.
"""

import contextlib

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from vadam.curvature import PerExampleSquares

B, T = 4, 7
DEVICES = [(FakeTensorMode, "meta"), (contextlib.nullcontext, "cpu")]
if torch.backends.cuda.is_built():
    DEVICES.append((FakeTensorMode, "cuda"))
if torch.cuda.is_available():
    DEVICES.append((contextlib.nullcontext, "cuda"))


class FirstOutput(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


class Translator(nn.Module):
    """Embeddings, an encoder and a decoder with dropout, and a linear layer on sequences."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8, padding_idx=0)
        self.inner = nn.Transformer(8, 2, 1, 1, 16, dropout=0.1, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, index):
        x = self.embed(index)
        return self.head(self.inner(x, x)).flatten(1)


def cnn():
    first = [nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(4, 6, 3, groups=2), nn.BatchNorm2d(6).eval(), nn.AvgPool2d(2), nn.Conv2d(6, 4, 1)]
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(4, 3))


NETWORKS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), (B, 6)),
    "cnn": (cnn, (B, 2, 8, 8)),
    "lstm": (lambda: nn.Sequential(FirstOutput(nn.LSTM(6, 5, 2, batch_first=True)), nn.Flatten()), (B, T, 6)),
    "lstm with dropout": (lambda: FirstOutput(nn.LSTM(6, 5, 2, dropout=0.3)), (T, B, 6)),
    "gru": (lambda: FirstOutput(nn.GRU(6, 5, bidirectional=True, batch_first=True)), (B, T, 6)),
    "transformer": (Translator, (B, T)),
    "module without a closed form": (lambda: nn.Sequential(nn.Linear(6, 5), nn.PReLU(5)), (B, 6)),
}


def fake(model, device):
    """Replace parameters and buffers by fake ones. ``Module.to`` would keep the real ones."""
    for module in model.modules():
        for name, p in list(module._parameters.items()):
            module._parameters[name] = None if p is None else nn.Parameter(torch.empty(p.shape, device=device))
        for name, buffer in module._buffers.items():
            module._buffers[name] = torch.empty(buffer.shape, dtype=buffer.dtype, device=device)
        if isinstance(module, nn.RNNBase):
            module._init_flat_weights()
    return model


# torch's own: an LSTM on another device looks for cuDNN, and flattening looks at the address of its weights
@pytest.mark.filterwarnings("ignore:PyTorch was compiled without cuDNN", "ignore:Accessing the data pointer")
@pytest.mark.parametrize("micro_batches", [1, 2])
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("mode", "device"), DEVICES)
def test_three_steps(name, micro_batches, mode, device):
    make, shape = NETWORKS[name]
    torch.manual_seed(0)
    model = make()
    with mode():
        model = fake(model, device) if mode is FakeTensorMode else model.to(device)
        x = torch.ones(shape, dtype=torch.long if name == "transformer" else torch.float32, device=device)
        engine = PerExampleSquares(model)
        for _ in range(3):
            for _ in range(micro_batches):
                (model(x).square().mean() / micro_batches).backward()
            h = engine.take()
            assert set(h) == set(model.parameters())
            for p, squares in h.items():
                assert (squares.shape, squares.dtype, squares.device) == (p.shape, torch.float32, p.device)
            model.zero_grad()


def test_fake_tensors_notice_a_read():
    with FakeTensorMode(), pytest.raises(DataDependentOutputException):
        bool(torch.ones(2, device="meta").any())
