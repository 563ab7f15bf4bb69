import os
import time
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from omegaconf import OmegaConf
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from lock.ensemble import spread
from lock.reaches import REACHES, history, hourly


@dataclass
class Config:
    hours: int = 30001
    width: int = 96
    batch: int = 50
    epochs: int = 4
    lr: float = 2e-3
    starts: int = 250
    horizon: int = 720
    every: int = 2
    wait: int = 900
    out: str = "canal.pt"


class Run:
    def __init__(self, config):
        dist.init_process_group("gloo", timeout=timedelta(seconds=config.wait))
        self.config, self.rank = config, dist.get_rank()
        torch.manual_seed(100 + self.rank)
        data = hourly(config.hours, 3)
        self.sampler = DistributedSampler(data, shuffle=True, drop_last=False)
        self.loader = DataLoader(data, config.batch, sampler=self.sampler)
        size = 3 * REACHES - 1
        self.net = nn.Sequential(
            nn.Linear(size, config.width), nn.SiLU(), nn.Linear(config.width, config.width), nn.SiLU(),
            nn.Linear(config.width, REACHES),
        )
        self.model = DistributedDataParallel(self.net)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), config.lr)
        self.start = time.time()

    def say(self, *words):
        if self.rank == 0:
            print(f"[{time.time() - self.start:5.1f} s]", *words, flush=True)

    def epoch(self, number):
        self.sampler.set_epoch(number)
        total = torch.zeros(2)
        for now, change in self.loader:
            loss = (self.model(now) - change).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += torch.tensor([loss.item(), 1.0])
        dist.all_reduce(total)
        self.say(f"epoch {number} error {(total[0] / total[1]).sqrt():.4f} m an hour over {int(total[1])} batches")

    def month(self, number):
        if self.rank == 0:
            low, middle, high = spread(self.net, *history(2000, 4), self.config.starts, self.config.horizon)
            self.say(f"a month ahead after epoch {number}: {middle:.3f} m ({low:.3f} to {high:.3f})")
            part = f"{self.config.out}.part"
            torch.save({"net": self.net.state_dict(), "epoch": number}, part)
            os.replace(part, self.config.out)
        dist.barrier()

    def all(self):
        for number in range(self.config.epochs):
            self.epoch(number)
            if (number + 1) % self.config.every == 0:
                self.month(number)


if __name__ == "__main__":
    torch.set_num_threads(1)
    Run(OmegaConf.merge(OmegaConf.structured(Config), OmegaConf.load("canal.yaml"), OmegaConf.from_cli())).all()
