import torch


def spectra(count, task, seed):
    """Peaks on a line; the first task asks where, the second which of four patterns."""
    g = torch.Generator().manual_seed(seed)
    axis = torch.linspace(0, 1, 80)
    kind = torch.randint(4, (count,), generator=g)
    place = torch.rand(count, 1, generator=g) * 0.4 + 0.1
    gap = 0.06 + 0.08 * kind[:, None]
    x = torch.exp(-(((axis - place) / 0.02) ** 2)) + torch.exp(-(((axis - place - gap) / 0.02) ** 2))
    x += 0.05 * torch.randn(count, 80, generator=g)
    return x[:, None], place.squeeze(1) if task == "place" else kind
