from torch import nn


class Forecaster(nn.Module):
    def __init__(self, hidden, layers, dropout, horizon):
        super().__init__()
        self.rnn = nn.GRU(1, hidden, layers, dropout=dropout, batch_first=True)
        self.head = nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, horizon))

    def forward(self, past):
        states, _ = self.rnn(past)
        return self.head(states[:, -1])
