from torch import nn


def network(width=16):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.GELU(),
        nn.Conv2d(width, width, 5, padding=2),
        nn.GELU(),
        nn.Conv2d(width, 1, 1),
        nn.Softplus(),
    )
