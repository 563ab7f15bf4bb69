import glob
import os

import numpy as np
import torch
from torch.utils.data import Dataset


class Pixels(Dataset):
    """Pieces of sixteen pixels out of the strips."""

    def __init__(self, folder, white, part, piece=16):
        self.white, self.piece = white, piece
        spectrum, share = [], []
        for n, path in enumerate(sorted(glob.glob(os.path.join(folder, "*.npz")))):
            if (n % 5 == 0) == (part == "held"):
                with np.load(path) as f:
                    spectrum.append(f["spectrum"])
                    share.append(f["share"])
        self.spectrum, self.share = np.concatenate(spectrum), np.concatenate(share)

    def __len__(self):
        return len(self.share) // self.piece

    def __getitem__(self, n):
        rows = slice(n * self.piece, (n + 1) * self.piece)
        return torch.from_numpy(self.white.divide(self.spectrum[rows])), torch.from_numpy(self.share[rows])
