import argparse

import numpy as np
import torch
from torch import nn

from match.model import Bank, Embed

p = argparse.ArgumentParser()
p.add_argument("--views")
p.add_argument("--steps", type=int)
p.add_argument("--bank", type=int)
p.add_argument("--batch", type=int, default=64)
p.add_argument("--temperature", type=float, default=0.15)
p.add_argument("--lr", type=float, default=7e-4)


def main():
    a = p.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    views = torch.from_numpy(np.load(a.views))
    train = views[:200]
    net, bank, losses = Embed(), Bank(a.bank), []
    optimizer = torch.optim.Adam(net.parameters(), a.lr)
    for step in range(a.steps):
        place = torch.randperm(len(train))[: a.batch]
        first, second = torch.rand(len(place), 8).argsort(1)[:, :2].T
        x, y = net(train[place, first]), net(train[place, second])
        against = torch.cat([y, bank.rows])
        scores = x @ against.T / a.temperature
        scores = scores.masked_fill(torch.cat([torch.full_like(place, -2), bank.place])[None] == place[:, None], -1e4)
        loss = nn.functional.cross_entropy(scores, torch.arange(len(x)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        bank.add(y, place)
        losses.append(loss.detach())
        if step % 20 == 0:
            print(f"[embed] step {step:4d} loss {torch.stack(losses[-20:]).mean():.4f} bank {int((bank.place >= 0).sum())}", flush=True)
    torch.save(net.state_dict(), "embed.pt")


if __name__ == "__main__":
    main()
