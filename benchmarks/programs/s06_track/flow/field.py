import torch
from torch import nn


class Field(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 2))

    def forward(self, x, t):
        return self.net(torch.cat([x, t], 1))

    def loss(self, data):
        noise, t = torch.randn_like(data), torch.rand(len(data), 1)
        return (self((1 - t) * noise + t * data, t) - (data - noise)).square().mean()
