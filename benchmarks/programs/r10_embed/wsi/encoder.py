import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 16, 5, 2), nn.ReLU(), nn.Conv2d(16, 32, 5, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.out = nn.Linear(128, width)

    def forward(self, x):
        return self.out(self.net(x))


def views(x, count):
    for k in range(count):
        y = torch.rot90(x, k % 4, (2, 3))
        yield y.flip(3) if k >= 4 else y
