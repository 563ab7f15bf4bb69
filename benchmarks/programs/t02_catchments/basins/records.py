import logging

import numpy as np
import torch
from torch.utils.data import Dataset

log = logging.getLogger("basins")


class Windows(Dataset):
    """Windows of forcing and the discharge on the last day, gauge by gauge."""

    def __init__(self, path, window, stride):
        with np.load(path) as f:
            rain, temp, flow = f["rain"], f["temp"], f["flow"]
        holes = int(np.isnan(rain).sum())
        if holes:
            log.warning("%d days without rainfall, taken as dry", holes)
            rain = np.nan_to_num(rain)
        self.forcing = np.stack([np.log1p(rain), temp / 15], -1)
        self.flow = np.log(flow)
        self.window = window
        days = rain.shape[1]
        self.index = [(g, t) for g in range(len(rain)) for t in range(window, days, stride)]
        missing = np.isnan(self.flow).mean(1)
        for g in np.flatnonzero(missing > 0.1):
            log.warning("gauge %d: discharge missing on %.0f %% of days", g, 100 * missing[g])

    def __len__(self):
        return len(self.index)

    def __getitem__(self, k):
        g, t = self.index[k]
        x = torch.from_numpy(self.forcing[g, t - self.window : t])
        return x, torch.tensor(self.flow[g, t])


class Blocks:
    """Consecutive blocks of the index to every rank: a gauge stays on one of them."""

    def __init__(self, count, rank, world, batch):
        share = count // world
        self.first, self.last, self.batch = rank * share, (rank + 1) * share, batch

    def __len__(self):
        return (self.last - self.first) // self.batch

    def __iter__(self):
        for n in range(len(self)):
            start = self.first + n * self.batch
            yield list(range(start, start + self.batch))
