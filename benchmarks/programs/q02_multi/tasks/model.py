import torch
from torch import nn
from torch.nn import functional as F


class MultiTask(nn.Module):
    def __init__(self, trunk, heads):
        super().__init__()
        layers = [nn.Linear(32, trunk["width"]), nn.ReLU()]
        for _ in range(trunk["depth"] - 1):
            layers += [nn.Linear(trunk["width"], trunk["width"]), nn.ReLU()]
        self.trunk = nn.Sequential(*layers)
        self.heads = nn.ModuleDict({k: nn.Linear(trunk["width"], n) for k, n in heads.items()})

    def forward(self, batch):
        losses = {}
        for name, (x, y) in batch.items():
            out = self.heads[name](self.trunk(x))
            losses[name] = F.cross_entropy(out, y) if name == "tag" else F.mse_loss(out, y)
        return losses
