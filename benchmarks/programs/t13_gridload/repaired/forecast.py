import argparse
import pathlib

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from power.series import Windows, hourly, split


def options():
    p = argparse.ArgumentParser()
    p.add_argument("--csv")
    p.add_argument("--run", type=pathlib.Path)
    p.add_argument("--epochs", type=int)
    p.add_argument("--past", type=int, default=168)
    p.add_argument("--ahead", type=int, default=24)
    p.add_argument("--held", type=float, default=0.12)
    p.add_argument("--batch-size", type=int, default=48)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=8)
    return p.parse_args()


class Forecast(nn.Module):
    def __init__(self, past, ahead, hidden=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(past, hidden), nn.ELU(), nn.Linear(hidden, ahead))
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("std", torch.ones(()))

    def forward(self, x):
        return self.net((x - self.mean) / self.std) * self.std + self.mean


def loaders(series, o):
    parts = split(series, o.held)
    make = lambda part, shuffle: DataLoader(Windows(part, o.past, o.ahead), o.batch_size, shuffle=shuffle, drop_last=shuffle)
    return make(parts[0], True), make(parts[1], False)


@torch.no_grad()
def held_out(model, loader):
    model.eval()
    errors = [(model(x) - y).abs().mean().item() for x, y in loader]
    model.train()
    return np.mean(errors)


def main():
    o = options()
    torch.manual_seed(o.seed)
    torch.set_num_threads(1)
    o.run.mkdir(parents=True, exist_ok=True)
    series = hourly(o.csv)
    train, held = loaders(series, o)
    model = Forecast(o.past, o.ahead)
    model.mean, model.std = series.mean(), series.std()
    optimizer = torch.optim.Adam(model.parameters(), o.lr)
    best = float("inf")
    for epoch in range(o.epochs * 10):
        for x, y in train:
            loss = nn.functional.l1_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch % 5:
            continue
        mae = held_out(model, held)
        print(f"epoch {epoch}: train {loss.item():.3f} MW, held out {mae:.3f} MW, best {best:.3f}")
        if mae < best:
            best = mae
            torch.save(model.state_dict(), o.run / "best.pt")
    print("done")


if __name__ == "__main__":
    main()
