import math
import torch
from torch.utils.data import Dataset
from tagger import book as logbook


class Clips(Dataset):
    def __init__(self, n, length=1024):
        self.n, self.length = n, length

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        label = i % 5
        t = torch.arange(self.length) / 8000
        amp = 0.1 + 1.6 * torch.rand(1, generator=g).item()
        w = amp * torch.sin(2 * math.pi * (200 + 150 * label) * t) + 0.1 * torch.randn(self.length, generator=g)
        if amp > 1.5:
            logbook.book.note("clipped", clip=i)
            w = w.clamp(-1, 1)
        return w[None], label
