import argparse
import time

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from ink.lines import LETTERS, Lines, text
from ink.score import Speller


class Reader(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.letter = nn.Embedding(len(LETTERS), width)
        self.rnn = nn.LSTM(width, width, 1, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * width, len(LETTERS))

    def forward(self, codes):
        return self.out(self.rnn(self.letter(codes))[0])


@torch.no_grad()
def read(net, loader, batches=None):
    rows, right, seen = [], 0, 0
    net.eval()
    for n, (given, truth) in enumerate(loader):
        if n == batches:
            break
        guess = net(given).argmax(-1)
        rows += text(guess)
        right += (guess == truth).sum().item()
        seen += truth.numel()
    net.train()
    return rows, right / seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lines", type=int, default=6000)
    parser.add_argument("--held", type=int, default=12000)
    parser.add_argument("--share", type=float, default=0.35)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--probe-every", type=int, default=50)
    parser.add_argument("--probe", type=int, default=3, help="batches of the quick look")
    o = parser.parse_args()
    torch.manual_seed(14)
    torch.set_num_threads(1)
    train = DataLoader(Lines(o.lines, o.share, 1), 50, shuffle=True, num_workers=1, persistent_workers=True)
    held = DataLoader(Lines(o.held, o.share, 2), 100)
    net = Reader(64)
    optimizer = torch.optim.AdamW(net.parameters(), 4e-3)
    speller = Speller()
    start, step = time.time(), 0
    for epoch in range(o.epochs):
        for given, truth in train:
            loss = cross_entropy(net(given).flatten(0, 1), truth.flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            step += 1
            if step % o.probe_every == 0:
                rows, right = read(net, held, o.probe)
                print(f"step {step} loss {loss.item():.3f} letters {right:.3f} words {speller.known(rows):.3f} ({time.time() - start:.0f} s)", flush=True)
    torch.save(net.state_dict(), "reader.pt")
    rows, right = read(net, held)
    print(f"all held-out lines: letters {right:.4f} words {speller.known(rows):.4f}", flush=True)
    speller.close()


if __name__ == "__main__":
    main()
