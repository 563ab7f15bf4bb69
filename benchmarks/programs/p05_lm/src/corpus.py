import torch
from torch.utils.data import Dataset


class Arithmetic(Dataset):
    """a+b=c; with one token per digit."""

    def __init__(self, n, seq=48, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.rows = []
        for _ in range(n):
            row = []
            while len(row) < seq:
                a, b = torch.randint(0, 500, (2,), generator=g).tolist()
                row += [ord(c) for c in f"{a}+{b}={a + b};"]
            self.rows.append(row[:seq])

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        ids = torch.tensor(self.rows[i])
        return {"input_ids": ids, "labels": ids.clone(), "attention_mask": torch.ones_like(ids)}
