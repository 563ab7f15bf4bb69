import torch
from torch.utils.data import TensorDataset


def blobs(n, seed, size=24):
    g = torch.Generator().manual_seed(seed)
    c = torch.rand(n, 2, 2, generator=g) * 0.8 + 0.1
    ax = (torch.arange(size) + 0.5) / size
    d2 = (ax[None, None, :, None] - c[:, :, 0, None, None]) ** 2 + (ax[None, None, None, :] - c[:, :, 1, None, None]) ** 2
    img = torch.exp(-d2 / 0.005).sum(1, keepdim=True) + 0.1 * torch.randn(n, 1, size, size, generator=g)
    return TensorDataset(img, c)
