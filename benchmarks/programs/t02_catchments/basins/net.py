import torch
from torch import nn


class Runoff(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.rnn = nn.LSTM(2, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1]).squeeze(-1)


def nse(simulated, observed):
    """Nash-Sutcliffe efficiency of the log discharge."""
    ok = torch.isfinite(observed)
    simulated, observed = simulated[ok], observed[ok]
    return 1 - (simulated - observed).square().sum() / (observed - observed.mean()).square().sum()
