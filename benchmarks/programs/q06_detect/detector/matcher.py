import itertools
import torch


@torch.no_grad()
def match(pred, target):
    """pred [Q, 2], target [T, 2]: the cheapest assignment; Q and T are tiny."""
    cost = torch.cdist(pred, target)
    best = min(itertools.permutations(range(len(pred)), len(target)), key=lambda p: sum(cost[q, t].item() for t, q in enumerate(p)))
    return list(best)
