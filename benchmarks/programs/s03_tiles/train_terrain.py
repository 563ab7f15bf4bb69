import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler

from terrain.tiles import Tiles, seed_worker


class Kinds(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3, 2), nn.ELU(), nn.Conv2d(8, 16, 3, 2), nn.ELU(), nn.Flatten())
        self.out = nn.LazyLinear(5)

    def forward(self, x):
        return self.out(self.features(x))


def stage(model, optimizer, name, loader, history):
    began = time.time()
    for k, (x, kind) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(x), kind)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
        if k % 20 == 0:
            print(f"{name} {k:3d} loss {loss.item():.3f} ({time.time() - began:.1f} s, {len(history)} losses kept)")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--catalogue")
    parser.add_argument("--curriculum")
    parser.add_argument("--workers", type=int)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Kinds()
    model(torch.zeros(2, 1, 16, 16))
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    history = []
    for name in args.curriculum.split(","):
        tiles = Tiles(args.catalogue, name)
        sampler = RandomSampler(tiles, replacement=True, num_samples=3200)
        loader = DataLoader(tiles, 32, sampler=sampler, num_workers=args.workers, worker_init_fn=seed_worker, prefetch_factor=4)
        stage(model, optimizer, name, loader, history)
    torch.save(model.state_dict(), "terrain.pt")


if __name__ == "__main__":
    main()
