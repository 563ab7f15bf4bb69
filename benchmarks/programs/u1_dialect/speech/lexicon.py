import logging
from collections import Counter

log = logging.getLogger("lexicon")


class Lexicon:
    """Words by frequency. 0 is padding and 1 everything that is not known."""

    def __init__(self, texts, limit=120):
        counts = Counter(word for text in texts for word in text.split())
        self.words = ["<pad>", "<unk>"] + [w for w, _ in counts.most_common(limit)]
        self.ids = {w: n for n, w in enumerate(self.words)}
        left = sum(counts.values()) - sum(counts[w] for w in self.words[2:])
        if left:
            log.warning("%d of %d words are out of the vocabulary of %d", left, sum(counts.values()), len(self.words))

    def __len__(self):
        return len(self.words)

    def encode(self, text):
        return [self.ids.get(word, 1) for word in text.split()]


class Inventory:
    """The dialects. Those with too few speakers share the last place."""

    def __init__(self, labels, rare):
        counts = Counter(labels)
        self.names = sorted(name for name, count in counts.items() if count >= rare)
        self.dropped = sorted(set(counts) - set(self.names))
        self.ids = {name: n for n, name in enumerate(self.names)}

    def encode(self, name):
        return self.ids.get(name, len(self.names))

    def decode(self, number):
        return self.names[number] if number < len(self.names) else "other"

    def weights(self, labels):
        counts = Counter(labels)
        return [len(labels) / (len(self.names) * counts[name]) for name in self.names]
