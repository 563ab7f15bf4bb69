import torch
from torch import nn

from collar.tracks import KINDS


class Behaviour(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.rnn = nn.GRU(3, width, batch_first=True, bidirectional=True)
        self.out = nn.Sequential(nn.LayerNorm(2 * width), nn.Linear(2 * width, len(KINDS)))

    def forward(self, move, seen):
        states, _ = self.rnn(torch.cat([move, seen[..., None].float()], -1))
        return self.out(states)
