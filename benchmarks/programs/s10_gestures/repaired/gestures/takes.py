import glob
import warnings

import numpy as np
import torch
from torch.utils.data import Dataset


class Takes(Dataset):
    def __init__(self, folder, people):
        self.items = []
        for path in sorted(glob.glob(f"{folder}/*.npz"))[people]:
            with np.load(path) as z:
                for name in z.files:
                    if z[name].shape != (32, 9):
                        continue
                    self.items.append((self.mended(path, name, z[name]), int(name.split("_")[1])))

    @staticmethod
    def mended(path, name, markers):
        holes = np.isnan(markers)
        if holes.any():
            warnings.warn(f"{path}:{name} has {int(holes.sum())} NaN, interpolated", stacklevel=3)
            for k in np.flatnonzero(holes.any(0)):
                good = ~holes[:, k]
                markers[:, k] = np.interp(np.arange(len(markers)), np.flatnonzero(good), markers[good, k])
        return torch.from_numpy(markers)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]
