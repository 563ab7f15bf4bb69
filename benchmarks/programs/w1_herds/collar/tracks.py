"""Tracks of reindeer with a GPS collar: a fix every two hours, many of them missing in the valleys."""
import torch
from torch.utils.data import Dataset

KINDS = ["graze", "rest", "migrate", "flee"]


class Tracks(Dataset):
    def __init__(self, herds, animals, length, seed):
        g = torch.Generator().manual_seed(seed)
        self.rows = []
        for herd in range(herds):
            valley = 0.97 if herd % 16 == 11 else 0.12
            for _ in range(animals):
                kind = torch.randint(len(KINDS), (length // 12,), generator=g).repeat_interleave(12)
                speed = torch.tensor([0.3, 0.05, 1.2, 2.5])[kind]
                heading = (torch.randn(length, generator=g) * torch.tensor([1.5, 2.0, 0.2, 0.4])[kind]).cumsum(0)
                move = torch.stack([heading.cos(), heading.sin()], -1) * speed[:, None]
                move = move + 0.1 * torch.randn(length, 2, generator=g)
                seen = torch.rand(length, generator=g) > valley
                self.rows.append((move * seen[:, None], seen, kind, herd))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, n):
        return self.rows[n]


class ByHerd:
    """Batches of one herd each; the herds are shared out over the ranks in turn."""

    def __init__(self, tracks, animals, rank, ranks, seed):
        herds = len(tracks) // animals
        self.batches = [list(range(h * animals, (h + 1) * animals)) for h in range(herds)]
        self.rank, self.ranks, self.seed, self.epoch = rank, ranks, seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return len(self.batches) // self.ranks

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        mine = self.batches[self.rank :: self.ranks][: len(self)]
        for n in torch.randperm(len(mine), generator=g).roll(self.epoch).tolist():
            yield mine[n]
