import torch
from torch import nn

from harbour.crossings import POINTS, SEEN


class Route(nn.Module):
    def __init__(self, width, layers, heads=4):
        super().__init__()
        self.inlet = nn.Linear(SEEN, width)
        self.place = nn.Parameter(0.1 * torch.randn(POINTS, width))
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, 0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(self.encoder(self.inlet(x) + self.place).mean(1))


class Delay(nn.Module):
    def __init__(self, width, layers, warn):
        super().__init__()
        self.route = Route(width, layers)
        self.delay = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))
        if warn:
            self.warn = nn.Linear(width, 1)

    def forward(self, x):
        state = self.route(x)
        return self.delay(state).squeeze(-1), self.warn(state).squeeze(-1) if hasattr(self, "warn") else None
