from torch import nn


class Encoder(nn.Sequential):
    def __init__(self, width=24):
        super().__init__(
            nn.Conv1d(1, width, 9, stride=2, padding=4),
            nn.BatchNorm1d(width),
            nn.GELU(),
            nn.Conv1d(width, width, 9, stride=2, padding=4),
            nn.BatchNorm1d(width),
            nn.GELU(),
            nn.Conv1d(width, 8, 9, stride=4, padding=4),
            nn.Flatten(),
            nn.Linear(64, 16),
        )
