import torch
from torch.utils.data import Dataset

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def sample(path, every):
    with open(path) as f:
        return [line.split("\t", 1)[0] for n, line in enumerate(f) if n % every == 0]


class Words(Dataset):
    def __init__(self, words, lexicon):
        self.words, self.lexicon = words, lexicon

    def __len__(self):
        return len(self.words)

    def __getitem__(self, n):
        word = self.words[n]
        tag, freq, senses = self.lexicon[word]
        letters = torch.zeros(20, dtype=torch.long)
        for k, c in enumerate(word[:20]):
            letters[k] = 1 + LETTERS.index(c)
        return letters, torch.tensor([min(freq, 50.0) / 10, senses / 5]), "NVAX".index(tag)
