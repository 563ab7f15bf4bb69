"""Samplers of all kinds: what they draw, when, how often they are asked, and that they are freed with their loader."""
import gc
import itertools
import weakref

import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, Sampler, TensorDataset, WeightedRandomSampler

torch.manual_seed(0)
data = TensorDataset(torch.arange(48.0).reshape(24, 2), torch.arange(24.0).reshape(24, 1))
net = torch.nn.Linear(2, 1)
opt = torch.optim.SGD(net.parameters(), lr=1e-4)


class Counted(Sampler):
    """Prints when it is asked; can be asked where it stands."""

    def __init__(self):
        self.at = 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.at == 24:
            self.at = 0
            raise StopIteration
        self.at += 1
        return (self.at * 7) % 24

    def __len__(self):
        return 24


class Endless(Sampler):
    def __iter__(self):
        try:
            for start in itertools.count():
                yield [(start + place) % 24 for place in range(4)]
        finally:
            print("endless sampler closed", flush=True)


class Pairs(Dataset):
    def __getitem__(self, key):
        name, index = key
        if index == 9:
            raise LookupError(name)
        return {"name": name, "nested": [torch.tensor([float(index)]), {"y": torch.ones(1)}]}

    def __len__(self):
        return 24


def train(loader, most=100):
    for x, y in itertools.islice(loader, most):
        loss = (net(x) - y).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(x[:, 0].tolist(), loss.item().hex(), flush=True)


counted = Counted()
for workers, ahead in ((0, None), (2, 3)):
    loader = DataLoader(data, batch_size=5, sampler=counted, num_workers=workers, prefetch_factor=ahead)
    it = iter(loader)
    next(it)
    print("drawn", counted.at if not workers else "ahead", flush=True)
    counted.at = 0
    del it
    train(loader)
train(DataLoader(data, batch_sampler=BatchSampler(WeightedRandomSampler([1.0] * 24, 12), 4, drop_last=True)))
train(DataLoader(data, batch_size=None, sampler=[[1, 2, 3], [4, 5]]))
train(DataLoader(data, batch_sampler=Endless()), 3)
gc.collect()
loader = DataLoader(data, batch_size=8, shuffle=True, num_workers=2, persistent_workers=True, pin_memory=True)
for _ in range(3):
    train(loader)
del loader
pairs = DataLoader(Pairs(), batch_sampler=[[("a", 1), ("b", 2)], [("c", 9)], [("d", 4)]])
it = iter(pairs)
watched = weakref.ref(it)
while True:
    try:
        print(sorted(next(it)), flush=True)
    except LookupError as error:
        print("caught", error, flush=True)
    except StopIteration:
        break
del it
gc.collect()
print("freed", watched() is None)
