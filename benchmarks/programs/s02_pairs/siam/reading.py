import csv
import logging

import torch

log = logging.getLogger(__name__)
UNKNOWN, PAD, LENGTH = 48, 49, 9


def ids(text):
    tokens = [int(t) for t in text.split()] or [UNKNOWN]
    return tokens + [PAD] * (LENGTH - len(tokens))


def read(path):
    with open(path, newline="") as f:
        rows = list(csv.reader(f))
    empty = sum(not left or not right for left, right, _ in rows)
    if empty:
        log.warning("%s: %d empty questions, read as <unk>", path, empty)
    return [{"left": ids(a), "right": ids(b), "labels": float(same)} for a, b, same in rows]


def collate(rows):
    return {
        "left": torch.tensor([r["left"] for r in rows]),
        "right": torch.tensor([r["right"] for r in rows]),
        "labels": torch.tensor([r["labels"] for r in rows]),
    }
