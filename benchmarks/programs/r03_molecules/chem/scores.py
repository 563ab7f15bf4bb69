import torch


def rank(values):
    return values.argsort().argsort().float()


def spearman(pred, true):
    if not torch.isfinite(pred).all():
        raise ValueError(f"spearman: {int((~torch.isfinite(pred)).sum())} of {pred.numel()} predictions are not finite")
    a, b = rank(pred), rank(true)
    a, b = a - a.mean(), b - b.mean()
    return (a * b).sum() / (a.norm() * b.norm())
