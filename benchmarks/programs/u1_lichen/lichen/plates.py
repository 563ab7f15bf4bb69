import csv
from pathlib import Path

import lightning as L
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from lichen.survey import GENERA


class Plates(Dataset):
    def __init__(self, root, sites, flip=False):
        self.rows, self.flip = [], flip
        for site in sites:
            with open(Path(root) / site / "table.csv", newline="") as f:
                self.rows += [(Path(root) / site / name, GENERA.index(genus)) for name, genus in csv.reader(f)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, n):
        path, genus = self.rows[n]
        image = torch.from_numpy(np.load(path).astype(np.float32))
        if self.flip and torch.rand(()) < 0.5:
            image = image.flip(-1)
        return image, genus


class Survey(L.LightningDataModule):
    """Whole sites are held out, so that no wall is in both parts."""

    def __init__(self, root, holdout, batch):
        super().__init__()
        self.root, self.holdout, self.batch = root, set(holdout), batch

    def setup(self, stage=None):
        sites = sorted(p.name for p in Path(self.root).iterdir() if p.is_dir())
        self.train_part = Plates(self.root, [s for s in sites if s not in self.holdout], flip=True)
        self.val_part = Plates(self.root, [s for s in sites if s in self.holdout])

    def class_weights(self):
        counts = np.bincount([genus for _, genus in self.train_part.rows], minlength=len(GENERA))
        return torch.tensor(counts.sum() / (len(GENERA) * np.maximum(counts, 1)), dtype=torch.float32)

    def train_dataloader(self):
        return DataLoader(self.train_part, self.batch, shuffle=True, drop_last=True)

    def val_dataloader(self):
        return DataLoader(self.val_part, self.batch)
