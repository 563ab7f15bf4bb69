import warnings

import lightning as L
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset


class Pollen(L.LightningDataModule):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg

    def _part(self, name):
        with np.load(f"{self.cfg['root']}/{name}.npz") as z:
            return TensorDataset(torch.from_numpy(z["image"])[:, None], torch.from_numpy(z["label"]))

    def setup(self, stage):
        self.train, self.val = self._part("train"), self._part("val")
        share = torch.bincount(self.train.tensors[1]).float() / len(self.train)
        if share.min() < 0.1:
            warnings.warn(f"class {int(share.argmin())} has only {share.min():.1%} of the samples, accuracy may mislead", stacklevel=1)

    def train_dataloader(self):
        return DataLoader(self.train, shuffle=True, **self.cfg["loader"])

    def val_dataloader(self):
        options = dict(self.cfg["loader"])
        options["batch_size"] *= self.cfg["val_batch_factor"]
        options["drop_last"] = False
        return DataLoader(self.val, **options)
