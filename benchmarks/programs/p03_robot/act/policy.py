import torch
from torch import nn
from torch.nn import functional as F


class ACTPolicy(nn.Module):
    def __init__(self, chunk, state_dim=14, hidden=96, kl_weight=10.0):
        super().__init__()
        self.chunk, self.kl_weight = chunk, kl_weight
        self.enc = nn.Sequential(nn.Linear(state_dim * (chunk + 1), hidden), nn.ReLU(), nn.Linear(hidden, 2 * 16))
        self.dec = nn.Sequential(nn.Linear(16 + state_dim, hidden), nn.ReLU(), nn.Linear(hidden, chunk * state_dim))

    def forward(self, qpos, actions, is_pad):
        mu, logvar = self.enc(torch.cat([qpos, actions.flatten(1)], 1)).chunk(2, 1)
        z = mu + (logvar / 2).exp() * torch.randn_like(mu)
        a_hat = self.dec(torch.cat([z, qpos], 1)).view(actions.shape)
        l1 = F.l1_loss(actions, a_hat, reduction="none").mean(-1)
        per_sample = (l1 * ~is_pad).sum(1) / (~is_pad).sum(1)
        kl = (-0.5 * (1 + logvar - mu ** 2 - logvar.exp())).sum(1).mean()
        return {"l1": per_sample.mean(), "kl": kl, "loss": per_sample.mean() + self.kl_weight * 1e-3 * kl, "each": per_sample.detach()}
