import glob
import os

import numpy as np
import torch
from torch.utils.data import Dataset


def load(folder):
    pixels, change = [], []
    for path in sorted(glob.glob(os.path.join(folder, "*.npz"))):
        with np.load(path) as f:
            pixels.append(f["pixels"])
            change.append(f["change"])
    return np.concatenate(pixels), np.concatenate(change)


class Tiles(Dataset):
    def __init__(self, pixels, change, train):
        self.pixels, self.train = pixels, train
        self.change = torch.from_numpy(change)

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, n):
        x = torch.from_numpy(self.pixels[n]).float()
        # every tile for itself: the light differs from scene to scene
        x = (x - x.mean((1, 2), keepdim=True)) / x.std((1, 2), keepdim=True)
        if self.train:
            x = torch.rot90(x, int(torch.randint(4, ())), (1, 2))
        return x, self.change[n]


def parts(folder, seed=3, share=0.8):
    pixels, change = load(folder)
    order = np.random.default_rng(seed).permutation(len(pixels))
    cut = int(len(order) * share)
    first, rest = order[:cut], order[cut:]
    return Tiles(pixels[first], change[first], True), Tiles(pixels[rest], change[rest], False)
