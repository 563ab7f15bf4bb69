import torch
from torch import nn


def double(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.ReLU(), nn.Conv2d(cout, cout, 3, padding=1), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, base=8, classes=2):
        super().__init__()
        self.d1, self.d2 = double(3, base), double(base, 2 * base)
        self.up = nn.ConvTranspose2d(2 * base, base, 2, 2)
        self.u1, self.head = double(2 * base, base), nn.Conv2d(base, classes, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(nn.functional.max_pool2d(a, 2))
        return self.head(self.u1(torch.cat([a, self.up(b)], 1)))
