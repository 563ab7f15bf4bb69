from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset


@lru_cache(maxsize=None)
def patient(path):
    with np.load(path) as archive:
        return archive["scan"], archive["mask"]


class Slices(Dataset):
    """All slices of some patients."""

    def __init__(self, root, first, last):
        self.paths = sorted(Path(root).glob("patient_*.npz"))[first:last]
        self.index = [(p, i) for p in self.paths for i in range(8)]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        path, k = self.index[i]
        scan, mask = patient(path)
        return torch.from_numpy(scan[k]), torch.from_numpy(mask[k]).long()
