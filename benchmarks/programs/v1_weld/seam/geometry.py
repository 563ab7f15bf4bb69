import torch
from torch.nn import functional as F


def direction(raw):
    """Unit vectors; a vector of no length points up."""
    up = torch.tensor([0.0, 0.0, 1e-6], device=raw.device)
    return F.normalize(raw + up, dim=-1)


def angle(a, b):
    """The angle between unit vectors, in radians."""
    return torch.acos((a * b).sum(-1).clamp(-1.0, 1.0))


def bend(path):
    """How much the direction turns from place to place."""
    return (path[:, 1:] - path[:, :-1]).square().sum(-1).mean()
