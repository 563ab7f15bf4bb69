import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset


class Windows(Dataset):
    def __init__(self, n=1600, past=48, ahead=12):
        t = np.arange(n + past + ahead)
        rng = np.random.default_rng(9)
        self.s = torch.tensor(np.sin(t / 7) + 0.5 * np.sin(t / 31) + 0.1 * rng.standard_normal(len(t)), dtype=torch.float32)
        self.n, self.past, self.ahead = n, past, ahead

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.s[i:i + self.past, None], self.s[i + self.past:i + self.past + self.ahead]


class GRUForecaster(nn.Module):
    def __init__(self, hidden=48, ahead=12):
        super().__init__()
        self.rnn = nn.GRU(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, ahead)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])
