from torch import nn


def build(width=10):
    return nn.Sequential(
        nn.Conv2d(1, width, 5, padding=2),
        nn.GroupNorm(2, width),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 5, stride=2, padding=2),
        nn.GroupNorm(2, 2 * width),
        nn.ReLU(),
        nn.Conv2d(2 * width, 2 * width, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(2 * width, 1, 3, padding=1),
    )
