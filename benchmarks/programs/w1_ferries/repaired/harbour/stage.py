"""One stage of the training: what is trained, on what, and where it goes on from."""
import time
import warnings
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader

from harbour.crossings import crossings
from harbour.model import Delay


@dataclass
class Stage:
    name: str
    route: str
    samples: int
    epochs: int
    lr: float
    warn: bool = False
    frozen: int = 0  # layers of the encoder that stay as they are
    resume: str | None = None
    width: int = 48
    layers: int = 3
    batch: int = 64


def freeze(model, layers):
    if layers:
        model.route.place.requires_grad_(False)
        model.route.inlet.requires_grad_(False)
    for layer in model.route.encoder.layers[:layers]:
        layer.requires_grad_(False)


def groups(model):
    """Weight decay for matrices only."""
    free = [p for p in model.parameters() if p.requires_grad]
    return [
        {"params": [p for p in free if p.ndim > 1], "weight_decay": 0.05},
        {"params": [p for p in free if p.ndim <= 1], "weight_decay": 0.0},
    ]


def run(stage):
    torch.manual_seed(2)
    model = Delay(stage.width, stage.layers, stage.warn)
    freeze(model, stage.frozen)
    optimizer = torch.optim.AdamW(groups(model), stage.lr)
    first = 0
    if stage.resume:
        kept = torch.load(stage.resume, weights_only=False)
        odd = model.load_state_dict(kept["model"], strict=False)
        if odd.unexpected_keys or odd.missing_keys:
            warnings.warn(f"{stage.resume}: unexpected {odd.unexpected_keys}, missing {odd.missing_keys}", stacklevel=2)
        first = kept["step"]
    train = DataLoader(crossings(stage.route, stage.samples, 5), stage.batch, shuffle=True, drop_last=True)
    held = crossings(stage.route, 800, 6).tensors
    step, start = first, time.time()
    for epoch in range(stage.epochs):
        for x, delay, cancelled in train:
            guess, warn = model(x)
            loss = nn.functional.huber_loss(guess, delay)
            if warn is not None:
                loss = loss + 0.3 * nn.functional.binary_cross_entropy_with_logits(warn, cancelled)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
        with torch.no_grad():
            error = (model(held[0])[0] - held[1]).abs().mean()
        print(f"{stage.name} epoch {epoch} step {step} loss {loss.item():.3f} held {error:.3f} h ({time.time() - start:.0f} s)", flush=True)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, f"{stage.name}.pt")
