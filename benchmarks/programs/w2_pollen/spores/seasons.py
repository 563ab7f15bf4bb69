import csv
import logging

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from spores.traps import KINDS

log = logging.getLogger("pollen")


def season(folder, name, sure, focus):
    """The grains whose label is sure and whose image is in focus."""
    with open(f"{folder}/{name}/labels.csv") as f:
        rows = list(csv.DictReader(f))
    without = [r for r in rows if not r["focus"]]
    if without:
        log.warning("season %s: %d rows without focus left out", name, len(without))
    kept = [r for r in rows if r["focus"] and float(r["focus"]) >= focus and float(r["sure"]) >= sure]
    at = [int(r["row"]) for r in kept]
    grains = torch.from_numpy(np.load(f"{folder}/{name}/grains.npy")[at]).float() / 255
    return TensorDataset(grains[:, None], torch.tensor([KINDS.index(r["kind"]) for r in kept], dtype=torch.long))


def loader(data, batch, shuffle):
    return DataLoader(data, batch, shuffle=shuffle, drop_last=True)
