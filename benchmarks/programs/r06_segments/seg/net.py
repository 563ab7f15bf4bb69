from torch import nn


class Segmenter(nn.Module):
    def __init__(self, width=96, layers=3):
        super().__init__()
        self.front = nn.Conv1d(1, width, 64, stride=64)
        self.body = nn.GRU(width, width, layers, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, 1)

    def forward(self, wave):
        h = self.front(wave[:, None]).transpose(1, 2)
        return self.head(self.body(h)[0]).squeeze(-1)
