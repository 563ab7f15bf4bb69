import torch
from torch.utils.data import Dataset


class TwoViews(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(6)
        self.x = torch.randn(n, 6, generator=g) @ torch.randn(6, 48, generator=g)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        x = self.x[i]
        return x + 0.3 * torch.randn(48), (x + 0.3 * torch.randn(48)) * (0.8 + 0.4 * torch.rand(1))
