import csv
import warnings

import numpy as np
import torch
from torch.utils.data import Dataset


def hourly(path):
    with open(path, newline="") as f:
        rows = [(int(r["hour"]), float(r["mw"])) for r in csv.DictReader(f)]
    hours, mw = (np.array(c) for c in zip(*rows))
    full = np.arange(hours[0], hours[-1] + 1)
    gaps = len(full) - len(hours)
    if gaps:
        warnings.warn(f"{path}: {gaps} hours missing (change of the clock?), interpolated")
    return torch.tensor(np.interp(full, hours, mw), dtype=torch.float32)


class Windows(Dataset):
    """The last `past` hours, and the `ahead` hours that follow; a window every day."""

    def __init__(self, series, past, ahead):
        self.series, self.past, self.ahead = series, past, ahead

    def __len__(self):
        return (len(self.series) - self.past - self.ahead) // 24 + 1

    def __getitem__(self, n):
        start = n * 24
        end = start + self.past
        return self.series[start:end], self.series[end : end + self.ahead]


def split(series, share):
    cut = int(len(series) * (1 - share))
    return series[:cut], series[cut:]
