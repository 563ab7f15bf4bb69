"""Cards of recipes: an ingredient list as numbers of the pantry, to be continued. A small grammar of dishes."""
import random

import torch
from torch.utils.data import Dataset

PANTRY, LENGTH = 6000, 24
DISHES = 40


def card(rng, dish):
    base = 10 + dish * 140
    row, at = [1, 2 + dish % 7], base
    while len(row) < LENGTH - 1:
        at = base + (at - base + rng.choice([3, 3, 3, 7, 11])) % 140
        row.append(at)
    return row + [9]


class Cards(Dataset):
    def __init__(self, count, seed):
        rng = random.Random(seed)
        self.rows = torch.tensor([card(rng, rng.randrange(DISHES)) for _ in range(count)])

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, n):
        return {"input_ids": self.rows[n], "labels": self.rows[n]}
