"""Proverbs from a small grammar, as bytes, with a label of their region; so that nothing is to be downloaded."""
import random

import torch
from torch.utils.data import Dataset

WHO = ["the fox", "a late guest", "the old boat", "who sows wind", "a full barrel", "the cat", "one hand", "the miller"]
DOES = ["never waits for", "washes", "knows the way to", "laughs at", "fears", "pays for", "does not bite", "asks"]
WHAT = ["the harvest", "the other", "burnt bread", "its own tail", "still water", "a Monday", "the bell", "good advice"]
END = ["", ", says the priest", ", but not in May", " twice"]
LENGTH = 72


def proverb(rng):
    who, does, what = (rng.randrange(8) for _ in range(3))
    text = f"{WHO[who]} {DOES[does]} {WHAT[what]}{rng.choice(END)}"
    return text, (who + (who > 5)) % 4


class Proverbs(Dataset):
    def __init__(self, count, seed):
        rng = random.Random(seed)
        self.rows = [proverb(rng) for _ in range(count)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, n):
        text, region = self.rows[n]
        codes = list(text.encode())[:LENGTH]
        mask = [1] * len(codes) + [0] * (LENGTH - len(codes))
        return {
            "input_ids": torch.tensor(codes + [0] * (LENGTH - len(codes))),
            "attention_mask": torch.tensor(mask),
            "labels": region,
        }
