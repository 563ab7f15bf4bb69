import json
from collections import Counter

import torch

from desk.letters import DESKS

PAD, MASK, UNKNOWN = 0, 1, 2
LONGEST = 48


def read(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


class Vocabulary:
    def __init__(self, rows):
        counts = Counter(word for row in rows for word in row["text"].split())
        self.ids = {word: n + 3 for n, (word, _) in enumerate(counts.most_common())}

    def __len__(self):
        return len(self.ids) + 3

    def encode(self, text):
        return [self.ids.get(word, UNKNOWN) for word in text.split()][:LONGEST]


class Letters(torch.utils.data.Dataset):
    def __init__(self, rows, vocabulary):
        desks = list(DESKS)
        self.items = [{"input_ids": vocabulary.encode(r["text"]), "labels": desks.index(r["desk"])} for r in rows]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, n):
        return self.items[n]


def collate(items):
    width = max(len(item["input_ids"]) for item in items)
    ids = torch.tensor([item["input_ids"] + [PAD] * (width - len(item["input_ids"])) for item in items])
    return {"input_ids": ids, "attention_mask": (ids != PAD).long(), "labels": torch.tensor([item["labels"] for item in items])}
