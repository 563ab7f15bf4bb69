import warnings

import lightning as L
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset


class Seams(L.LightningDataModule):
    def __init__(self, path, batch):
        super().__init__()
        self.path, self.batch = path, batch

    def setup(self, stage=None):
        with np.load(self.path) as f:
            profile, torch_ = torch.from_numpy(f["profile"]), torch.from_numpy(f["torch"])
        if profile.abs().max() > 10:
            warnings.warn(f"profile of {profile.abs().max():.0f} mm: spatter?")
        cut = int(len(profile) * 0.85)
        self.train_part = TensorDataset(profile[:cut], torch_[:cut])
        self.held_part = TensorDataset(profile[cut:], torch_[cut:])

    def train_dataloader(self):
        return DataLoader(self.train_part, self.batch, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.held_part, 64)
