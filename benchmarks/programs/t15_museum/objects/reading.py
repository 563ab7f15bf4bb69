import csv
import logging

import torch

log = logging.getLogger("objects")


def rows(folder, part):
    with open(f"{folder}/{part}.csv", newline="") as f:
        return list(csv.DictReader(f))


class Vocabulary:
    def __init__(self, texts):
        self.number = {"[PAD]": 0, "[CLS]": 1, "[UNK]": 2}
        for text in texts:
            for word in text.split():
                self.number.setdefault(word, len(self.number))

    def __len__(self):
        return len(self.number)

    def encode(self, text, length):
        ids = [1] + [self.number.get(w, 2) for w in text.split()]
        return ids[:length], len(ids) > length


class Departments:
    def __init__(self):
        self.number = {}

    def __call__(self, name):
        return self.number.setdefault(name, len(self.number))

    def __len__(self):
        return len(self.number)


class Catalogue(torch.utils.data.Dataset):
    def __init__(self, records, words, departments, length):
        self.items, cut = [], 0
        for r in records:
            ids, longer = words.encode(r["text"], length)
            cut += longer
            self.items.append({"input_ids": ids, "labels": departments(r["department"])})
        if cut:
            log.warning("%d of %d texts are longer than %d tokens and were cut", cut, len(records), length)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, n):
        return self.items[n]


def collate(items):
    longest = max(len(i["input_ids"]) for i in items)
    ids = torch.tensor([i["input_ids"] + [0] * (longest - len(i["input_ids"])) for i in items])
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": torch.tensor([i["labels"] for i in items])}
