import glob
import logging
import numpy as np
import torch
from torch.utils.data import Dataset

log = logging.getLogger("skills.windows")


class Windows(Dataset):
    def __init__(self, folder, horizon):
        self.eps = [np.load(p) for p in sorted(glob.glob(f"{folder}/*.npy"))]
        self.h = horizon
        self.index = [(e, s) for e, a in enumerate(self.eps) for s in range(max(0, len(a) - horizon))]
        short = sum(len(a) <= horizon for a in self.eps)
        if 0 < short < len(self.eps):
            log.warning("%s: %d of %d episodes are shorter than %d and give nothing", folder, short, len(self.eps), horizon)

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        e, s = self.index[i]
        w = torch.from_numpy(self.eps[e][s:s + self.h + 1])
        return w[0], w[1:]
