import time

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader


class Thallus(nn.Module):
    """The trunk: from a patch to a vector."""

    def __init__(self, width):
        super().__init__()
        layers, before = [], 3
        for n in (width, width, 2 * width, 2 * width):
            layers += [nn.Conv2d(before, n, 3, 2, 1), nn.GroupNorm(4, n), nn.SiLU()]
            before = n
        self.layers = nn.Sequential(*layers)
        self.size = before

    def forward(self, x):
        return self.layers(x).mean((2, 3))


class Classifier(nn.Module):
    def __init__(self, width, classes, drop=0.1):
        super().__init__()
        self.trunk = Thallus(width)
        self.head = nn.Sequential(nn.Dropout(drop), nn.Linear(self.trunk.size, classes))

    def forward(self, x):
        return self.head(self.trunk(x))


def warm(step, steps):
    return min(1.0, (step + 1) / steps)


@torch.no_grad()
def accuracy(model, data):
    model.eval()
    right = torch.cat([(model(x).argmax(-1) == y).float() for x, y in DataLoader(data, 200)])
    model.train()
    return right.mean().item()


def fit(name, model, train, held, epochs, batch, lr):
    free = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(free, lr)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: warm(step, 30))
    start = time.time()
    for epoch in range(epochs):
        total = 0.0
        loader = DataLoader(train, batch, shuffle=True, drop_last=True)
        for x, y in loader:
            loss = cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        print(
            f"{name} epoch {epoch} loss {total / len(loader):.3f} held {accuracy(model, held):.3f} "
            f"rate {schedule.get_last_lr()[0]:.1e} ({time.time() - start:.0f} s)",
            flush=True,
        )
    return accuracy(model, held)
