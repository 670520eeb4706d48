"""The networks on which everything is timed."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vadam_paper.experiments.char_lm.network import LanguageModel, detached


def mlp() -> tuple[nn.Module, Tensor]:
    """784-400-400-10, batch 128."""
    layers = [nn.Linear(784, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 10)]
    return nn.Sequential(*layers), torch.randn(128, 784)


def cnn() -> tuple[nn.Module, Tensor]:
    """28x28 images, conv 3x3 of 32 and 64 channels, each with pooling, then 128-10; batch 128."""
    features = [nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    features += [nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*features, nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10)), torch.randn(128, 1, 28, 28)


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm1, self.norm2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self, width: int = 128):
        super().__init__()
        self.embed, self.blocks = nn.Embedding(1000, width), nn.Sequential(Block(width, 4), Block(width, 4))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, index: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.embed(index))).mean(1))


def transformer() -> tuple[nn.Module, Tensor]:
    """2 blocks of width 128 with 4 heads, 1000 words, 64 positions; batch 32."""
    return Transformer(), torch.randint(0, 1000, (32, 64))


class Reading(nn.Module):
    """A language model that goes on from the state in which the last minibatch has left it; logits [B, C, T]."""

    def __init__(self, language_model: LanguageModel):
        super().__init__()
        self.language_model, self.state = language_model, None

    def forward(self, index: Tensor) -> Tensor:
        logits, state = self.language_model(index, self.state)
        self.state = detached(state)
        return logits.transpose(1, 2)


def lstm() -> tuple[nn.Module, Tensor]:
    """Return the step of `char-lm`: 2 layers of 128 units, 84 characters, 50 positions, state carried, gradients clipped; batch 50."""
    model = LanguageModel(84, 64, 128, 2).requires_grad_(True)  # no frozen biases: not every peer can do with them
    return Reading(model), torch.randint(0, 84, (50, 50))


def norm_layer(norm: str, channels: int) -> nn.Module:
    return nn.BatchNorm2d(channels) if norm == "batch" else nn.GroupNorm(4, channels)


class ResidualBlock(nn.Module):
    """The residual block x ↦ ReLU(shortcut(x) + norm(conv(ReLU(norm(conv(x))))))."""

    def __init__(self, norm: str, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = norm_layer(norm, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = norm_layer(norm, outputs)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(self.shortcut(x) + inner)


class ResidualNetwork(nn.Sequential):
    """A convolution, two residual blocks (the second at half the resolution), a linear layer."""

    def __init__(self, norm: str, inputs: int, channels: tuple[int, int], classes: int) -> None:
        first, second = channels
        super().__init__(
            nn.Conv2d(inputs, first, 3, padding=1, bias=False),
            norm_layer(norm, first),
            nn.ReLU(),
            ResidualBlock(norm, first, first, stride=1),
            ResidualBlock(norm, first, second, stride=2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(second, classes),
        )


def residual() -> tuple[nn.Module, Tensor]:
    """Return two residual blocks of 16 and 32 channels with GroupNorm, 8x8 images; batch 32."""
    return ResidualNetwork("group", 1, (16, 32), 10), torch.randn(32, 1, 8, 8)


def residual_with_batch_norm() -> tuple[nn.Module, Tensor]:
    """Return two residual blocks with BatchNorm, whose parameters are deterministic."""
    return ResidualNetwork("batch", 1, (16, 32), 10), torch.randn(32, 1, 8, 8)


def residual_on_cifar() -> tuple[nn.Module, Tensor]:
    """Return two residual blocks with GroupNorm for images of 3x32x32; batch 32."""
    return ResidualNetwork("group", 3, (16, 32), 10), torch.randn(32, 3, 32, 32)


def residual_with_batch_norm_on_cifar() -> tuple[nn.Module, Tensor]:
    """Return two residual blocks with BatchNorm for images of 3x32x32; batch 32."""
    return ResidualNetwork("batch", 3, (16, 32), 10), torch.randn(32, 3, 32, 32)


MODELS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {"mlp": mlp, "cnn": cnn, "transformer": transformer}
TRAINED = {
    **MODELS,
    "lstm": lstm,
    "residual, GroupNorm": residual,
    "residual, BatchNorm": residual_with_batch_norm,
    "residual, GroupNorm, 32x32": residual_on_cifar,
    "residual, BatchNorm, 32x32": residual_with_batch_norm_on_cifar,
}
"""Networks whose training step is measured."""


def resnet18_shapes() -> list[tuple[int, ...]]:
    """Return the 62 tensors of a ResNet-18, 11.7 million weights."""
    shapes: list[tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,)]
    for inputs, outputs in ((64, 64), (64, 128), (128, 256), (256, 512)):
        for first in (inputs, outputs):
            shapes += [(outputs, first, 3, 3), (outputs,), (outputs,), (outputs, outputs, 3, 3), (outputs,), (outputs,)]
            if first != outputs:
                shapes += [(outputs, first, 1, 1), (outputs,), (outputs,)]
    return [*shapes, (1000, 512), (1000,)]
