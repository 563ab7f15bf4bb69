import h5py
import torch
from torch.utils.data import Dataset, Sampler


class Frames(Dataset):
    """The frames of all transects; the file is opened where it is read."""

    def __init__(self, path):
        self.path, self.file = path, None
        with h5py.File(path) as f:
            self.index = [(name, n) for name in sorted(f) for n in range(len(f[name]["image"]))]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, n):
        if self.file is None:
            self.file = h5py.File(self.path)
        name, row = self.index[n]
        group = self.file[name]
        return torch.from_numpy(group["image"][row]), torch.from_numpy(group["mask"][row]).long()


class Transects(Sampler):
    """Batches out of one transect (the light is the same); the transects are dealt to the ranks."""

    def __init__(self, index, batch, rank, ranks, seed=0):
        self.batch, self.rank, self.ranks, self.seed, self.epoch = batch, rank, ranks, seed, 0
        self.groups = {}
        for n, (name, _) in enumerate(index):
            self.groups.setdefault(name, []).append(n)
        self.names = sorted(self.groups)
        # the same number of batches everywhere
        self.count = (len(self.names) // ranks) * (min(map(len, self.groups.values())) // batch)

    def __len__(self):
        return self.count

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed + self.epoch)
        mine = [self.names[k] for k in torch.randperm(len(self.names), generator=g)[self.rank :: self.ranks]]
        batches = []
        for name in mine:
            rows = [self.groups[name][k] for k in torch.randperm(len(self.groups[name]), generator=g)]
            batches += [rows[k : k + self.batch] for k in range(0, len(rows) - self.batch + 1, self.batch)]
        return iter(batches[: self.count])
