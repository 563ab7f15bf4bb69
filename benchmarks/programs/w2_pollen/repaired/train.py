import logging
import time
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from spores.seasons import loader, log, season
from spores.traps import KINDS


@dataclass
class Part:
    name: str
    sure: float = 0.7
    focus: float = 0.25


@dataclass
class Config:
    folder: str = "traps"
    train: Part = field(default_factory=lambda: Part("2021"))
    val: Part = field(default_factory=lambda: Part("2022"))
    away: Part = field(default_factory=lambda: Part("2023", sure=0.5))
    batch: int = 32
    width: int = 48
    epochs: int = 4
    adapt: int = 2
    lr: float = 2e-3


class Trainer:
    def __init__(self, config):
        self.config = config
        w = config.width
        self.net = nn.Sequential(
            nn.Conv2d(1, w, 3, 1, 1), nn.BatchNorm2d(w), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(w, w, 3, 1, 1), nn.BatchNorm2d(w), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(w, w, 3, 1, 1), nn.BatchNorm2d(w), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
            nn.Flatten(), nn.Linear(4 * w, len(KINDS)),
        )
        self.start = time.time()

    def fit(self, name, batches, epochs, lr):
        optimizer = torch.optim.AdamW(self.net.parameters(), lr)
        for epoch in range(epochs):
            losses = []
            for grains, kinds in batches:
                loss = cross_entropy(self.net(grains), kinds)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.detach())
            mean = torch.stack(losses).mean().item()
            log.info("%s epoch %d: %d batches, loss %.3f (%.0f s)", name, epoch, len(losses), mean, time.time() - self.start)

    @torch.no_grad()
    def score(self, name, batches):
        self.net.eval()
        right = torch.cat([(self.net(grains).argmax(-1) == kinds).float() for grains, kinds in batches])
        self.net.train()
        log.info("%s accuracy %.3f of %d grains", name, right.mean(), len(right))

    def run(self):
        c = self.config
        train, val, away = (season(c.folder, p.name, p.sure, p.focus) for p in (c.train, c.val, c.away))
        log.info("season %s for training, %s for validation, %s to adapt to", c.train.name, c.val.name, c.away.name)
        self.fit("train", loader(train, c.batch, True), c.epochs, c.lr)
        self.score("val", loader(val, c.batch, False))
        self.fit("adapt", loader(away, c.batch, True), c.adapt, c.lr / 10)
        self.score("away", loader(away, c.batch, False))
        torch.save(self.net.state_dict(), "pollen.pt")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S")
    torch.manual_seed(21)
    torch.set_num_threads(1)
    Trainer(Config()).run()
