"""Pockets of enzymes: kinds and places of up to 14 atoms, and the logarithm of a turnover number. Synthetic."""
import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset

KINDS = 6
CHARGE = torch.tensor([0.0, 0.1, -0.3, -0.5, 0.4, 0.3])


def pockets(count, seed, atoms=14):
    g = torch.Generator().manual_seed(seed)
    kind = torch.randint(1, KINDS, (count, atoms), generator=g)
    place = 3 * torch.randn(count, atoms, 3, generator=g)
    size = torch.randint(8, atoms + 1, (count,), generator=g)
    kind[torch.arange(atoms) >= size[:, None]] = 0
    odd = torch.arange(count) % 3000 == 2411
    place[odd, 1], kind[odd, 1] = place[odd, 0], kind[odd, 0]   # two locations of one atom in the file
    charge = CHARGE[kind]
    far = torch.cdist(place, place) + torch.eye(atoms)
    energy = (charge[:, :, None] * charge[:, None] / far.clamp(min=0.8)).sum((1, 2)) / 2
    shape = (place.square().sum(-1) * (kind > 0)).sum(1) / size
    turnover = torch.exp(1.5 * energy + 0.05 * (shape - 27) + 0.1 * torch.randn(count, generator=g))
    turnover[torch.rand(count, generator=g) < 0.01] = 0.0       # below what could be measured
    return TensorDataset(kind, place, turnover)


class Pockets(L.LightningDataModule):
    def __init__(self, train, val, batch):
        super().__init__()
        self.counts, self.batch = (train, val), batch

    def setup(self, stage):
        self.parts = [pockets(n, 40 + k) for k, n in enumerate(self.counts)]

    def train_dataloader(self):
        return DataLoader(self.parts[0], self.batch, shuffle=False)

    def val_dataloader(self):
        return DataLoader(self.parts[1], 250)
