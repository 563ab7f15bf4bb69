import torch
from torch import nn


class Picker(nn.Module):
    """A score for each sample of being the arrival."""

    def __init__(self, width=16):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(1, width, 11, padding=5),
            nn.ReLU(),
            nn.Conv1d(width, width, 11, padding=5),
            nn.ReLU(),
            nn.Conv1d(width, 1, 11, padding=5),
        )

    def forward(self, trace):
        return self.layers(trace.unsqueeze(1)).squeeze(1)


def smooth_target(onset, length, width):
    t = torch.arange(length)
    p = torch.exp(-0.5 * ((t - onset[:, None]) / width) ** 2)
    return p / p.sum(-1, keepdim=True)
