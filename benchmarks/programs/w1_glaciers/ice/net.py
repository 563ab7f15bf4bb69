import torch
from torch import nn


def block(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 5, 1, 2), nn.GroupNorm(4, b), nn.SiLU())


class FlowNet(nn.Module):
    """Products of gradients, as in the method of Lucas and Kanade, and what the net makes of them."""

    def __init__(self, width, depth):
        super().__init__()
        self.pool = nn.AvgPool2d(4)
        self.start = nn.Sequential(nn.BatchNorm2d(5), block(5, width))
        self.body = nn.Sequential(*[block(width, width) for _ in range(depth)])
        self.up = nn.Sequential(nn.Conv2d(width, 2, 1), nn.Upsample(scale_factor=4, mode="bilinear", align_corners=True))

    def forward(self, pair):
        first, change = pair[:, :1], pair[:, 1:] - pair[:, :1]
        down, right = torch.gradient(first, dim=(2, 3))
        x = torch.cat([right * change, down * change, right * right, down * down, right * down], 1)
        x = self.start(self.pool(x))
        return self.up(x + self.body(x))
