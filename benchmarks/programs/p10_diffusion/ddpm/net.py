import math
import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, width=256, T=100):
        super().__init__()
        self.emb = nn.Embedding(T, width)
        self.inp = nn.Linear(64, width)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width)) for _ in range(3))
        self.out = nn.Linear(width, 64)

    def forward(self, x, t):
        h = self.inp(x) + self.emb(t)
        for b in self.blocks:
            h = h + b(h)
        return self.out(h)


def schedule(T=100):
    s = 0.008
    f = torch.cos((torch.arange(T + 1) / T + s) / (1 + s) * math.pi / 2) ** 2
    return (f / f[0])[1:].clamp(1e-4, 0.9999)
