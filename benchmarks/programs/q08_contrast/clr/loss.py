import torch
from torch.nn import functional as F


def nt_xent(a, b, tau):
    z = F.normalize(torch.cat([a, b]), dim=1)
    s = z @ z.T / tau
    s.fill_diagonal_(float("-inf"))
    n = len(a)
    return F.cross_entropy(s, torch.cat([torch.arange(n, 2 * n), torch.arange(n)]))
