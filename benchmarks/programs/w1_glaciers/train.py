import sys
from dataclasses import dataclass, field

import torch
from omegaconf import OmegaConf
from torch.utils.data import DataLoader, random_split

from ice.ledger import Ledger
from ice.net import FlowNet
from ice.scenes import Pairs


@dataclass
class Data:
    count: int = 480
    side: int = 160
    noise: float = 0.05
    workers: int = 1
    prefetch: int = 4


@dataclass
class Config:
    data: Data = field(default_factory=Data)
    width: int = 40
    depth: int = 2
    batch: int = 12
    epochs: int = 4
    lr: float = 4e-3
    out: str = "book"
    report: int = 8
    averaged: float = 0.98


class Trainer:
    def __init__(self, config):
        self.config = config
        everything = Pairs(config.data.count, config.data.side, config.data.noise, 7)
        train, held = random_split(everything, [0.85, 0.15], torch.Generator().manual_seed(1))
        self.train = DataLoader(
            train,
            config.batch,
            shuffle=True,
            drop_last=True,
            num_workers=config.data.workers,
            prefetch_factor=config.data.prefetch,
            persistent_workers=True,
        )
        self.held = DataLoader(held, config.batch)
        self.net = FlowNet(config.width, config.depth)
        self.mean = torch.optim.swa_utils.AveragedModel(
            self.net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(config.averaged)
        )
        self.optimizer = torch.optim.AdamW(self.net.parameters(), config.lr)
        self.ledger = Ledger(config.out)
        self.history = []
        self.step = 0

    def one(self, pair, flow):
        guess = self.net(pair)
        loss = (guess - flow).abs().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.mean.update_parameters(self.net)
        self.step += 1
        self.history.append(float(loss))
        self.ledger.panel(self.step, pair, flow, guess)
        row = self.ledger.scalar(self.step, self.history[-1])
        if self.step % self.config.report == 0:
            print(f"step {row['step']} loss {row['loss']:.4f} px ({row['seconds']:.0f} s)", flush=True)

    @torch.no_grad()
    def check(self):
        errors = [(self.mean(pair) - flow).norm(dim=1).mean().item() for pair, flow in self.held]
        return sum(errors) / len(errors)

    def fit(self):
        for epoch in range(self.config.epochs):
            for pair, flow in self.train:
                self.one(pair, flow)
            self.ledger.close_epoch(epoch)
            print(f"epoch {epoch}: held-out end-point error {self.check():.3f} px", flush=True)
        torch.save(self.mean.module.state_dict(), f"{self.config.out}/flow.pt")


if __name__ == "__main__":
    torch.manual_seed(5)
    torch.set_num_threads(1)
    Trainer(OmegaConf.merge(OmegaConf.structured(Config), OmegaConf.from_cli(sys.argv[1:]))).fit()
