"""A small residual network: a convolution, two residual blocks (the second at half the resolution), a linear layer."""

import torch.nn.functional as F
from torch import Tensor, nn

GROUPS = 4


def norm_layer(norm: str, channels: int) -> nn.Module:
    return nn.BatchNorm2d(channels) if norm == "batch" else nn.GroupNorm(GROUPS, channels)


class Block(nn.Module):
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
    def __init__(self, norm: str, inputs: int, channels: tuple[int, int], classes: int) -> None:
        first, second = channels
        super().__init__(
            nn.Conv2d(inputs, first, 3, padding=1, bias=False),
            norm_layer(norm, first),
            nn.ReLU(),
            Block(norm, first, first, stride=1),
            Block(norm, first, second, stride=2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(second, classes),
        )


def parts(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Return the weights that are sampled, and those of BatchNorm, which are deterministic."""
    of_norms = [p for m in model.modules() if isinstance(m, nn.BatchNorm2d) for p in m.parameters()]
    return [p for p in model.parameters() if all(p is not q for q in of_norms)], of_norms
