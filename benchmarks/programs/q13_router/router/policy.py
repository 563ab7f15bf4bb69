import torch
from torch import nn


class Router(nn.Module):
    """Chooses one of the machines for each job; machines that are full are masked out."""

    def __init__(self, features=8, machines=6):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(features, 48), nn.Tanh(), nn.Linear(48, machines))

    def probs(self, x, full, temperature):
        s = self.score(x) / temperature
        return s.masked_fill(full, float("-inf")).softmax(-1)


def entropy(p):
    return -(p * p.log()).sum(-1)
