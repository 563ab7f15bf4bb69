import argparse
import logging

import torch
from torch import nn

from desk.feed import Feed
from desk.pulse import Pulse

torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 24, 5)
        self.head = nn.Linear(24, 1)

    def forward(self, x):
        return self.head(self.conv(x).relu().mean(-1)).squeeze(-1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--days")
    p.add_argument("--passes", type=int)
    p.add_argument("--depth", type=int)
    p.add_argument("--log")
    p.add_argument("--lr", type=float, default=3e-3)
    a = p.parse_args()
    logging.basicConfig(filename=a.log, level=logging.DEBUG, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.warning("queue depth %d is small for this disk, expect waits", a.depth)
    net = Net()
    optimizer = torch.optim.RMSprop(net.parameters(), a.lr)
    feed, pulse = Feed(a.days, a.depth), Pulse()
    pulse.start()
    for n in range(a.passes):
        total = 0.0
        for k, (x, y) in enumerate(feed):
            for part in torch.randperm(len(x)).split(32):
                loss = nn.functional.smooth_l1_loss(net(x[part]), y[part])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
            pulse.count += 1
            if k % 8 == 0:
                print(f"pass {n} day {k:3d} loss {loss.item():.5f}")
        print(f"pass {n} done, sum of losses {total:.4f}")
    torch.save(net.state_dict(), "trades.pt")


if __name__ == "__main__":
    main()
