import warnings

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset


def loaders(path, batch_size):
    with np.load(path) as z:
        items, dwell = z["items"], z["dwell"]
    short = int(((items > 0).sum(1) < 6).sum())
    if short:
        warnings.warn(f"{short} sessions are shorter than 6 clicks; they are padded with 0", stacklevel=2)
    if items.dtype != np.int64:
        warnings.warn(f"items have dtype {items.dtype}, converted to int64", stacklevel=2)
    data = TensorDataset(torch.from_numpy(items.astype(np.int64)), torch.from_numpy(dwell.astype(np.float32) / 60))
    cut = int(0.8 * len(data))
    train = torch.utils.data.Subset(data, range(cut))
    valid = torch.utils.data.Subset(data, range(cut, len(data)))
    return (
        DataLoader(train, batch_size, shuffle=True, drop_last=True),
        DataLoader(valid, batch_size),
    )
