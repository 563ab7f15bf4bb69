import random
import numpy as np
import torch
from torch.utils.data import Dataset

WORDS = "the of and to in is that was for on are as with his they at be this have from".split()


class CharDataset(Dataset):
    """Emits windows of characters, with a noise table for the dropout of characters (slow to make, so it is kept)."""

    def __init__(self, n, block, seed):
        r = random.Random(seed)
        self.text = " ".join(r.choice(WORDS) for _ in range(40000))
        self.stoi = {c: i for i, c in enumerate(sorted(set(self.text)))}
        self.codes = np.array([self.stoi[c] for c in self.text], dtype=np.int64)
        self.n, self.block = n, block
        self._noise = {}

    def __len__(self):
        return self.n

    def noise(self, start):
        if start not in self._noise:
            self._noise[start] = np.random.default_rng(start).random((self.block, 1024), dtype=np.float32)
        return self._noise[start]

    def __getitem__(self, idx):
        start = random.randrange(len(self.codes) - self.block - 1)
        w = self.codes[start:start + self.block + 1]
        drop = self.noise(start)[:, idx % 1024] < 0.05
        x = torch.from_numpy(w[:-1].copy())
        x[torch.from_numpy(drop)] = 0
        return x, torch.from_numpy(w[1:].copy())
