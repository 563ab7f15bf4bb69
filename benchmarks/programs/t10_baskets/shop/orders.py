import json
import logging
import statistics

import torch
from torch.utils.data import Dataset

log = logging.getLogger(__name__)
PAD = 120


class History(Dataset):
    """What a customer bought before, and the item that came next."""

    def __init__(self, path, length):
        with open(path) as f:
            self.rows = [json.loads(line) for line in f]
        self.length = length
        prices = [o["price"] for r in self.rows for o in r["orders"] if o["price"] is not None]
        self.median = statistics.median(prices)
        holes = sum(o["price"] is None for r in self.rows for o in r["orders"])
        log.warning("%d of %d prices missing, median %.2f instead", holes, holes + len(prices), self.median)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, n):
        *past, last = self.rows[n]["orders"]
        past = [o for o in past if not o["voucher"]][-self.length :]
        items = torch.full((self.length,), PAD)
        prices = torch.zeros(self.length)
        for k, order in enumerate(past):
            items[k] = order["item"]
            prices[k] = order["price"] if order["price"] is not None else self.median
        return items, prices.log1p(), last["item"]
