import os

import lightning as L
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset


class Clips(L.LightningDataModule):
    def __init__(self, folder, batch):
        super().__init__()
        self.folder, self.batch = folder, batch

    def _part(self, name):
        with np.load(os.path.join(self.folder, f"{name}.npz")) as f:
            return TensorDataset(torch.from_numpy(f["x"]), torch.from_numpy(f["y"]).long())

    def train_dataloader(self):
        return DataLoader(self._part("train"), self.batch, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self._part("val"), self.batch)
