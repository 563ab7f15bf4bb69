import torch
from torch import nn


class VAE(nn.Module):
    def __init__(self, d=32, z=4, h=64):
        super().__init__()
        self.e = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, 2 * z))
        self.d = nn.Sequential(nn.Linear(z, h), nn.ReLU(), nn.Linear(h, d))

    def forward(self, x):
        m, lv = self.e(x).chunk(2, -1)
        r = self.d(m + torch.randn_like(m) * (0.5 * lv).exp())
        rec = ((r - x) ** 2).sum(-1).mean()
        kl = 0.5 * (m ** 2 + lv.exp() - lv - 1).sum(-1).mean()
        return rec + kl, rec, kl
