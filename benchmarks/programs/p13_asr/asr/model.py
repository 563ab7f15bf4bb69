from torch import nn


class TinyCTC(nn.Module):
    def __init__(self, mel=40, hidden=128, tokens=20):
        super().__init__()
        self.sub = nn.Conv1d(mel, hidden, 5, 2, 2)
        self.rnn = nn.LSTM(hidden, hidden, 1, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, tokens)

    def forward(self, x):
        return self.out(self.rnn(self.sub(x).relu().transpose(1, 2))[0]).log_softmax(-1)
