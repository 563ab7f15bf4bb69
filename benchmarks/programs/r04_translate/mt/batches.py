import numpy as np
import torch


class ShardBatches:
    """The batches of one rank, in order, cut to the longest sentence in each."""

    def __init__(self, path, size=16):
        with np.load(path) as z:
            self.src, self.tgt = torch.from_numpy(z["src"]), torch.from_numpy(z["tgt"])
        self.size = size

    def __len__(self):
        return len(self.src) // self.size

    def __iter__(self):
        for i in range(0, len(self) * self.size, self.size):
            src, tgt = self.src[i : i + self.size], self.tgt[i : i + self.size]
            width = int((src > 0).sum(1).max())
            yield src[:, :width], tgt[:, :width]
