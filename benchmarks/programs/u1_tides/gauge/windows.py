import functools

import numpy as np
import torch


class Windows:
    """Random windows of random stations; from time to time a longer one around the highest water."""

    def __init__(self, data, part, seed):
        table = np.load(data["file"], mmap_mode="r")
        cut = int(table.shape[1] * 0.8)
        self.table = table[:, :cut] if part == "train" else table[:, cut:]
        self.window, self.horizon = data["window"], data["horizon"]
        self.storm_every = data["storm_every"]
        self.rng = np.random.default_rng(seed)
        self.count = 0
        # reading from the memory map is slow on the cluster's disk
        self.piece = functools.lru_cache(maxsize=data["cache"])(self._piece)

    def _piece(self, station, start, length):
        row = np.array(self.table[station, start : start + length])
        return (row - row.mean()) / (row.std() + 1e-3)

    def batch(self, size):
        self.count += 1
        storm = self.storm_every and self.count % self.storm_every == 0
        past = self.window * 2 if storm else self.window
        rows = []
        for _ in range(size):
            station = int(self.rng.integers(len(self.table)))
            start = int(self.rng.integers(self.table.shape[1] - past - self.horizon))
            rows.append(self.piece(station, start, past + self.horizon))
        rows = torch.from_numpy(np.stack(rows))
        return rows[:, :past, None], rows[:, past:]
