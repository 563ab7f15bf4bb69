import logging
from collections import Counter

import torch

log = logging.getLogger("words")


class Words:
    def __init__(self, texts):
        self.names = ["[PAD]", "[UNK]"] + sorted(Counter(w for t in texts for w in t.split()))
        self.ids = {w: n for n, w in enumerate(self.names)}
        self.cut = 0

    def __len__(self):
        return len(self.names)

    def encode(self, text, longest):
        ids = [self.ids.get(w, 1) for w in text.split()]
        if len(ids) > longest:
            self.cut += 1
            if self.cut in (1, 10, 100, 1000):
                log.warning("%d sequences longer than %d were truncated", self.cut, longest)
        return ids[:longest]


class Collator:
    """Pads titles and ingredients on their own."""

    def __init__(self, words, longest):
        self.words, self.longest = words, longest

    def __call__(self, rows):
        batch = {}
        for name in ("title", "ingredients"):
            ids = [self.words.encode(row[name], self.longest) for row in rows]
            width = max(map(len, ids))
            batch[f"{name}_ids"] = torch.tensor([i + [0] * (width - len(i)) for i in ids])
        return batch
