import glob
import json
import os
import random

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset


def read(folder):
    rows = []
    for path in sorted(glob.glob(os.path.join(folder, "*.jsonl"))):
        with open(path) as f:
            rows += [json.loads(line) for line in f]
    return rows


def split(rows, share=0.85, seed=0):
    rows = list(rows)
    random.Random(seed).shuffle(rows)
    cut = int(len(rows) * share)
    return rows[:cut], rows[cut:]


class Utterances(Dataset):
    def __init__(self, rows, lexicon, inventory):
        self.rows, self.lexicon, self.inventory = rows, lexicon, inventory

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, n):
        row = self.rows[n]
        return torch.tensor(self.lexicon.encode(row["text"])), self.inventory.encode(row["dialect"])


def collate(items):
    tokens, labels = zip(*items)
    return pad_sequence(tokens, batch_first=True), torch.tensor(labels)
