from torch import nn


class SpeedNet(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(8, width, 5, padding=2, padding_mode="circular"), nn.ReLU(), nn.Conv1d(width, width, 3), nn.ReLU())
        self.out = nn.Linear(width, 5)

    def forward(self, frames):
        return self.out(self.net(frames).mean(-1))
