import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from telemetry.client import Run

torch.set_num_threads(1)
MONOMERS = 7


class Chains(Dataset):
    """Random copolymers and their glass transition, by a made-up rule."""

    def __init__(self, count, length=24):
        g = torch.Generator().manual_seed(3)
        self.chains = torch.randint(0, MONOMERS, (count, length), generator=g)
        stiff = torch.linspace(-1, 1, MONOMERS)[self.chains]
        self.glass = stiff.mean(1) * 3 + (stiff[:, 1:] * stiff[:, :-1]).mean(1)

    def __len__(self):
        return len(self.chains)

    def __getitem__(self, n):
        return self.chains[n], self.glass[n]


class Encoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Embedding(MONOMERS, width)
        self.mix = nn.Conv1d(width, width, 3, padding=1)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        h = self.mix(self.embed(x).transpose(1, 2)).relu()
        return self.head(h.mean(-1)).squeeze(-1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int)
    p.add_argument("--workers", type=int)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--lr", type=float, default=2e-3)
    a = p.parse_args()
    torch.manual_seed(0)
    run = Run()
    loader = DataLoader(Chains(1280), a.batch, shuffle=True, num_workers=a.workers, persistent_workers=True)
    net = Encoder()
    optimizer = torch.optim.AdamW(net.parameters(), a.lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, a.lr * 3, total_steps=a.epochs * len(loader))
    step = 0
    for epoch in range(a.epochs):
        for chains, glass in loader:
            loss = nn.functional.mse_loss(net(chains), glass)
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            run.log(step, loss=loss, norm=norm, lr=schedule.get_last_lr()[0])
            schedule.step()
            step += 1
        print(f"epoch {epoch:2d} step {step:4d} loss {loss.item():.4f}", flush=True)
    run.finish()
    torch.save(net.state_dict(), "polymer.pt")


if __name__ == "__main__":
    main()
