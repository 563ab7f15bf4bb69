import torch
from torch import nn


class ReefNet(nn.Module):
    def __init__(self, width=12, kinds=3):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width * 2, 3, 2, 1), nn.ReLU())
        self.deep = nn.Sequential(nn.Conv2d(width * 2, width * 2, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(width * 2, width, 2, 2)
        self.out = nn.Conv2d(width + 3, kinds, 1)
        self.depth = nn.Linear(width * 2, 1)  # guess of the depth, for later

    def forward(self, image):
        x = self.deep(self.down(image))
        return self.out(torch.cat([self.up(x), image], 1))


class Tally:
    """Loss, pixels and right ones of an epoch."""

    def __init__(self):
        self.sums = torch.zeros(3, dtype=torch.float64)

    def add(self, loss, scores, mask):
        known = mask != 255
        right = (scores.argmax(1) == mask)[known].sum()
        self.sums += torch.tensor([loss.item(), float(known.sum()), float(right)], dtype=torch.float64)
