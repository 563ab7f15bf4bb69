"""Ten seconds of the sound of a hive as band powers; is a queen there, and will it swarm?"""
import torch
from torch.utils.data import Dataset

STATES = ["queen", "no queen", "swarm"]


class Sounds(Dataset):
    def __init__(self, count, seed, steps=40, bands=32):
        g = torch.Generator().manual_seed(seed)
        self.state = torch.randint(3, (count,), generator=g)
        self.power = torch.randn(count, steps, bands, generator=g)
        self.power[self.state == 0, :, 8:11] += 0.6
        self.power[self.state == 1, :, 6:14] += 0.25
        wave = (torch.arange(steps) * 0.9).sin()[:, None]
        self.power[self.state == 2, :, 14:18] += 0.8 * wave

    def __len__(self):
        return len(self.state)

    def __getitem__(self, n):
        return self.power[n], self.state[n]
