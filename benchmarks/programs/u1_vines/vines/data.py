import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, random_split


class Leaves(Dataset):
    def __init__(self, path, flip):
        with np.load(path) as f:
            self.outline, self.kind = torch.from_numpy(f["outline"]), torch.from_numpy(f["kind"])
        self.flip = flip

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, n):
        outline = self.outline[n]
        if self.flip:
            outline = outline.roll(int(torch.randint(96, ())))
        return outline / outline.mean(), self.kind[n]


def loaders(cfg, seed):
    everything = Leaves(cfg.path, cfg.flip)
    held = int(len(everything) * cfg.held)
    g = torch.Generator().manual_seed(seed)
    train, val = random_split(everything, [len(everything) - held, held], generator=g)
    return DataLoader(train, cfg.batch, shuffle=True, drop_last=True), DataLoader(val, 128)
