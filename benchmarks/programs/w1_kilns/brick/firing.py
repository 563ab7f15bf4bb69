"""Firings of a tunnel kiln: temperatures at eight thermocouples over two days; which fault will the bricks have?"""
import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset

FAULTS = ["none", "crack", "bloat", "pale"]


def firings(count, seed, hours=48, probes=8):
    g = torch.Generator().manual_seed(seed)
    t = torch.linspace(0, 1, hours)
    fault = torch.multinomial(torch.tensor([0.4, 0.2, 0.2, 0.2]), count, True, generator=g)
    curve = 1050 * (1 - (2 * t - 1).abs() ** 3)
    place = 1 - 0.03 * torch.arange(probes)
    temperature = curve[None, :, None] * place + 20 * torch.randn(count, hours, probes, generator=g)
    temperature[fault == 1, 30:, :] -= 120 * t[30:, None]          # cooled too fast
    temperature[fault == 2, 18:30, :4] += 45                       # too hot in the middle
    temperature[fault == 3, 18:30, 4:] -= 45
    dead = torch.rand(count, probes, generator=g) < 0.02
    temperature = temperature.masked_fill(dead[:, None], 0.0)      # a thermocouple that broke
    return TensorDataset(temperature, fault)


class Kiln(L.LightningDataModule):
    def __init__(self, train, val, batch):
        super().__init__()
        self.sizes, self.batch = (train, val), batch

    def setup(self, stage):
        self.parts = [firings(n, seed) for seed, n in enumerate(self.sizes)]

    def train_dataloader(self):
        return DataLoader(self.parts[0], self.batch, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.parts[1], 200)
