import torch
from torch import nn


class RainNet(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(24, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.amount = nn.Linear(width, 1)
        self.storm = nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x, auxiliary=True):
        h = self.trunk(x)
        amount = self.amount(h).squeeze(-1)
        return (amount, self.storm(h).squeeze(-1)) if auxiliary else (amount, None)


def objective(model, x, rain, storm, weight):
    amount, logit = model(x, auxiliary=weight > 0)
    loss = torch.nn.functional.smooth_l1_loss(amount, rain)
    if logit is not None:
        loss = loss + weight * torch.nn.functional.binary_cross_entropy_with_logits(logit, storm)
    return loss
