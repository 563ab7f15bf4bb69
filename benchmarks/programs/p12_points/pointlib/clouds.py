import torch


def shapes(n, points, seed):
    g = torch.Generator().manual_seed(seed)
    kind = torch.randint(0, 4, (n,), generator=g)
    v = torch.randn(n, points, 3, generator=g)
    ball = v / v.norm(dim=-1, keepdim=True)
    cube = (torch.rand(n, points, 3, generator=g) * 2 - 1)
    disk = ball * torch.tensor([1.0, 1.0, 0.02])
    line = ball * torch.tensor([1.0, 0.02, 0.02])
    out = torch.stack([ball, cube, disk, line])[kind, torch.arange(n)]
    return out, kind


def drop_degenerate(x, y):
    spread = x.std(dim=1).min(dim=-1).values
    keep = spread > 0.0105
    return x[keep], y[keep], int((~keep).sum())
