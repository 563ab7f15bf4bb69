"""Finds, for views that are hard to tell apart, the nearest views of other hulls."""
import time

import torch


class Archive:
    """The embeddings as the harbour office serves them: row by row, and not too fast."""

    def __init__(self, table, per_second=40):
        self.table, self.pause = table, 1 / per_second

    def row(self, n):
        time.sleep(self.pause)
        return self.table[n]


@torch.no_grad()
def hard_pairs(model, views, hull, share):
    model.eval()
    table = model(views)
    model.train()
    archive = Archive(table)
    count = int(len(views) * share)
    pairs = []
    for n in torch.randperm(len(views), generator=torch.Generator().manual_seed(4))[:count].tolist():
        near = archive.row(n) @ table.T
        near[hull == hull[n]] = -2
        pairs.append((n, int(near.argmax())))
    return pairs
