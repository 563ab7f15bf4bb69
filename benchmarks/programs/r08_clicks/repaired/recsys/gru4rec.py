import torch
from torch import nn


class GRU4Rec(nn.Module):
    """Next click from the clicks so far; the state starts from a learned vector."""

    def __init__(self, items=51, width=32, batch_size=64):
        super().__init__()
        self.embed = nn.Embedding(items, width, padding_idx=0)
        self.gru = nn.GRU(width + 1, width, batch_first=True)
        self.start = nn.Parameter(torch.zeros(width))
        self.out = nn.Linear(width, items)
        self.batch_size = batch_size

    def initial(self, rows):
        return self.start.expand(1, rows, -1).contiguous()

    def forward(self, clicks, dwell):
        x = torch.cat([self.embed(clicks), dwell[..., None]], -1)
        h, _ = self.gru(x, self.initial(len(clicks)))
        return self.out(h)
