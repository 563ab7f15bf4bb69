"""Lines of an old merchant's hand, where some letters are badly read; the net gives the letters back."""
import random

import torch
from torch.utils.data import Dataset

WORDS = "item paid unto the for cloth wool ells barrel herring wine salt of bruges antwerp lynn shillings pence received and by hand".split()
LETTERS = " abcdefghijklmnopqrstuvwxyz?"
LENGTH = 40


def line(rng):
    text = ""
    while len(text) < LENGTH:
        text += rng.choice(WORDS) + " "
    return text[:LENGTH]


def smudge(text, rng, share):
    return "".join("?" if c != " " and rng.random() < share else c for c in text)


class Lines(Dataset):
    def __init__(self, count, share, seed):
        rng = random.Random(seed)
        self.rows = [(smudge(t, rng, share), t) for t in (line(rng) for _ in range(count))]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, n):
        return tuple(torch.tensor([LETTERS.index(c) for c in text]) for text in self.rows[n])


def text(codes):
    return ["".join(LETTERS[c] for c in row) for row in codes.tolist()]
