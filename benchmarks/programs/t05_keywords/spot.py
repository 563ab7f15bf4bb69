import argparse
import logging

import torch
from torch import nn
from torch.utils.data import DataLoader

from voice.clips import Clips, Decoder
from voice.mirror import Mirror

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
log = logging.getLogger("spot")


class Spotter(nn.Module):
    def __init__(self):
        super().__init__()
        self.bank = nn.Conv1d(1, 24, 64, stride=8)
        self.out = nn.Linear(24, 5)

    def forward(self, x):
        return self.out(self.bank(x.unsqueeze(1)).square().mean(-1).add(1e-6).log())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--clips")
    p.add_argument("--epochs", type=int)
    p.add_argument("--scratch")
    p.add_argument("--lr", type=float, default=5e-3)
    a = p.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    decoder, mirror = Decoder(), Mirror(a.scratch)
    loader = DataLoader(Clips(a.clips, decoder), 24, shuffle=True)
    net = Spotter()
    optimizer = torch.optim.Adam(net.parameters(), a.lr)
    step = 0
    for epoch in range(a.epochs):
        right = seen = 0
        for samples, word in loader:
            scores = net(samples)
            loss = nn.functional.cross_entropy(scores, word)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += (scores.argmax(-1) == word).sum().item()
            seen += len(word)
            step += 1
            if step % 5 == 0:
                log.info("step %d loss %.3f accuracy %.3f", step, loss.item(), right / seen)
            if step % 10 == 0:
                torch.save(net.state_dict(), "spotter.pt")
                mirror.copy("spotter.pt")
    decoder.close()
    log.info("finished after %d steps", step)


if __name__ == "__main__":
    main()
