import torch
from torch import nn


class Embed(nn.Module):
    def __init__(self, inputs=96, outputs=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, outputs))

    def forward(self, x):
        return nn.functional.normalize(self.net(x), dim=-1)


class Bank:
    """The newest embeddings, as further negatives."""

    def __init__(self, size, width=64):
        self.rows = nn.functional.normalize(torch.randn(size, width), dim=-1)
        self.place = torch.full((size,), -1)
        self.next = 0

    def add(self, rows, place):
        where = (torch.arange(len(rows)) + self.next) % len(self.rows)
        self.rows[where], self.place[where] = rows.detach(), place
        self.next = (self.next + len(rows)) % len(self.rows)
