import pathlib
import lightning as L
import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset


def standardise(a):
    return (a - a.mean(axis=0)) / a.std(axis=0)


class Weeks(IterableDataset):
    """Week after week, in time order: drift within a week is small."""

    def __init__(self, files):
        self.files = files

    def __iter__(self):
        for f in self.files:
            with np.load(f) as z:
                x, y = standardise(z["x"].astype("float64")), z["y"]
            print(f"[data] {f.name}: {len(x)} rows")
            for a, b in zip(x.astype("float32"), y):
                yield a, b


class PlantData(L.LightningDataModule):
    def __init__(self, folder, batch, val_every_week):
        super().__init__()
        files = sorted(pathlib.Path(folder).glob("week_*.npz"))
        self.train_files = [f for i, f in enumerate(files, 1) if i != val_every_week]
        self.val_files = [f for i, f in enumerate(files, 1) if i == val_every_week]
        self.batch = batch

    def train_dataloader(self):
        return DataLoader(Weeks(self.train_files), batch_size=self.batch)

    def val_dataloader(self):
        return DataLoader(Weeks(self.val_files), batch_size=self.batch)
