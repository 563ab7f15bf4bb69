from __future__ import annotations

import argparse
import dataclasses
import numpy as np
import torch
from torch import nn
from anomaly.metrics import partial_auc


@dataclasses.dataclass
class Options:
    width: int
    epochs: int
    lr: float = 1e-2
    batch: int = 32

    @classmethod
    def parse(cls):
        p = argparse.ArgumentParser()
        for f in dataclasses.fields(cls):
            kind = {"int": int, "float": float}[f.type]
            p.add_argument("--" + f.name, type=kind, **({} if f.default is dataclasses.MISSING else {"default": f.default}))
        return cls(**vars(p.parse_args()))


class AutoEncoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(24, 32), nn.Tanh(), nn.Linear(32, width))
        self.g = nn.Sequential(nn.Linear(width, 32), nn.Tanh(), nn.Linear(32, 24))

    def forward(self, x):
        return self.g(self.f(x))


def make(seed):
    rng = np.random.default_rng(seed)
    a = np.random.default_rng(0).standard_normal((5, 24))
    x = rng.standard_normal((960, 5)) @ a + 0.2 * rng.standard_normal((960, 24))
    y = (rng.random(960) < 0.05).astype(float)
    x[y == 1] += 1.5 * rng.standard_normal((int(y.sum()), 24))
    return torch.tensor(x, dtype=torch.float32), y


def main(o: Options):
    torch.manual_seed(o.width)
    (x, _), (xt, yt) = make(1), make(2)
    net = AutoEncoder(o.width)
    opt = torch.optim.Adam(net.parameters(), lr=o.lr)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, o.lr, total_steps=o.epochs * 30)
    step = 0
    for epoch in range(o.epochs):
        for rows in torch.randperm(len(x)).split(o.batch):
            loss = (net(x[rows]) - x[rows]).square().mean()
            opt.zero_grad(); loss.backward(); opt.step(); sched.step()
            step += 1
            if step % 6 == 0:
                print(f"width {o.width} | epoch {epoch} | step {step} | mse {loss.item():.4f}")
        if epoch > 0:
            with torch.no_grad():
                score = (net(xt) - xt).square().mean(1).numpy()
            print(f"width {o.width} | epoch {epoch} | partial auc {partial_auc(score, yt):.3f}")
    torch.save(net.state_dict(), f"ae_{o.width}.pt")


if __name__ == "__main__":
    main(Options.parse())
