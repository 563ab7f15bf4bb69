import argparse
import time

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from strings.feeder import Feeder
from strings.net import StringNet
from strings.takes import RATE, STRINGS


class Held:
    """Every fifth take, from its start; cut or padded to the window."""

    def __init__(self, folder, window, count):
        self.files = [(f"{folder}/{n:04d}.npy", n % len(STRINGS)) for n in range(0, count, 5)]
        self.samples = int(window * RATE)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, n):
        wave = np.load(self.files[n][0]).astype(np.float32)[: self.samples]
        return np.pad(wave, (0, self.samples - len(wave))) / max(np.abs(wave).max(), 1e-3), self.files[n][1]


@torch.no_grad()
def accuracy(net, loader):
    net.eval()
    right = [(net(wave).argmax(-1) == string).float() for wave, string in loader]
    net.train()
    return torch.cat(right).mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--takes", default="takes")
    parser.add_argument("--count", type=int, default=640)
    parser.add_argument("--window", type=float, nargs=2, default=[0.4, 1.0], help="seconds, at first and at last")
    parser.add_argument("--widen", type=int, default=4, help="epochs until the longest window")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--threads", type=int, default=2)
    o = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    net = StringNet()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3, weight_decay=0.02)
    held = DataLoader(Held(o.takes, o.window[1], o.count), 32, num_workers=1, persistent_workers=True)
    feeder = Feeder(o.takes, o.batch, o.window[0], o.threads, seed=6)
    start = time.time()
    for epoch in range(o.epochs):
        feeder.widen(o.window[0] + (o.window[1] - o.window[0]) * min(1, epoch / o.widen))
        for step in range(o.steps):
            wave, string = feeder.get()
            loss = cross_entropy(net(wave), string)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 15 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.3f} queue {feeder.queue.qsize()} {time.time() - start:.0f} s", flush=True)
        print(f"epoch {epoch} held-out accuracy {accuracy(net, held):.3f}", flush=True)
    feeder.close()
    torch.save(net.state_dict(), "strings.pt")


if __name__ == "__main__":
    main()
