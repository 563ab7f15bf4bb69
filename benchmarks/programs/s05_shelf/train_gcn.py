import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from nodes import beat
from nodes.shelf import Shelf


class GCN(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.a, self.b = nn.Linear(4, width), nn.Linear(width, 4)

    def forward(self, x, adjacency):
        return self.b(torch.sparse.mm(adjacency, self.a(torch.sparse.mm(adjacency, x)).relu()))


def load(path):
    with np.load(path) as z:
        n = len(z["kind"])
        pairs = torch.from_numpy(np.concatenate([z["pairs"], z["pairs"][:, ::-1], np.arange(n)[:, None].repeat(2, 1)]).T.copy())
        degree = torch.bincount(pairs[0], minlength=n).float()
        adjacency = torch.sparse_coo_tensor(pairs, 1 / degree[pairs[0]], (n, n)).coalesce()
        return torch.from_numpy(z["x"]), torch.from_numpy(z["kind"]), adjacency


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--graph")
    p.add_argument("--shelf")
    p.add_argument("--keep", type=int)
    p.add_argument("--steps", type=int)
    a = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    beat.start("beat.txt")
    x, kind, adjacency = load(a.graph)
    model, shelf = GCN(), Shelf(a.shelf, a.keep)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    loader = DataLoader(range(800), 100, shuffle=True, num_workers=2, persistent_workers=True)
    step, best = 0, 0.0
    while step < a.steps:
        for part in loader:
            loss = nn.functional.cross_entropy(model(x, adjacency)[part], kind[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 20 == 0:
                score = (model(x, adjacency)[800:].argmax(1) == kind[800:]).float().mean().item()
                print(f"step {step} loss {loss.item():.4f} score {score:.4f}")
                if score > best:
                    best = score
                    shelf.publish(model, step, score)
            if step >= a.steps:
                break
    print("best", best, [e["name"] for e in shelf.entries()])


if __name__ == "__main__":
    main()
