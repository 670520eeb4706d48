"""LeNet-5 as in the public table: three convolutions that keep the size, two dense layers, 545,546 weights."""

from torch import nn

SIDE = 28


def lenet5(widths: tuple[int, int, int, int], classes: int = 10) -> nn.Module:
    a, b, c, dense = widths
    return nn.Sequential(
        nn.Conv2d(1, a, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(a, b, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(b, c, 5, padding=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(c * (SIDE // 4) ** 2, dense),
        nn.ReLU(),
        nn.Linear(dense, classes),
    )
