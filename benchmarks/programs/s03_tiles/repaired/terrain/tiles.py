import numpy as np
import torch
from torch.utils.data import Dataset, get_worker_info


class Tiles(Dataset):
    def __init__(self, folder, level):
        self.folder, self.level = folder, level
        self.kind = np.load(f"{folder}/{level}_kind.npy")
        self.tiles = None

    def open(self):
        self.tiles = np.load(f"{self.folder}/{self.level}.npy", mmap_mode="r")

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, i):
        if self.tiles is None:
            self.open()
        return (torch.from_numpy(self.tiles[i].astype(np.float32))[None] - 127.5) / 64.0, int(self.kind[i])


def seed_worker(_):
    np.random.seed(get_worker_info().seed % 2**32)
