import h5py
import numpy as np
import torch
from torch.utils.data import Dataset


class Patches(Dataset):
    """Opened in the worker at its first sample."""

    def __init__(self, path):
        self.path, self.file = path, None
        with h5py.File(path) as f:
            self.index = [(s, i) for s in sorted(f) for i in range(len(f[s]["pixels"]))]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, k):
        if self.file is None:
            self.file = h5py.File(self.path, "r")
        slide, i = self.index[k]
        pixels = self.file[slide]["pixels"][i].astype(np.float32) / 255
        return torch.from_numpy(pixels)[None], int(self.file[slide].attrs["grade"])
