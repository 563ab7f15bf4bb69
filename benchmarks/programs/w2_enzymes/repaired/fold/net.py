import lightning as L
import torch
from torch import nn
from torch.nn.functional import huber_loss

from fold.pockets import KINDS


class Turnover(L.LightningModule):
    """Messages between the atoms of a pocket; places are first moved a little, by an amount that belongs to the kind."""

    def __init__(self, width=48, rounds=2, waves=16, reach=9.0, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.kind = nn.Embedding(KINDS, width, padding_idx=0)
        self.moved = nn.Embedding(KINDS, 3)
        nn.init.normal_(self.moved.weight, std=0.02)
        self.message = nn.ModuleList([nn.Sequential(nn.Linear(width + waves, width), nn.SiLU()) for _ in range(rounds)])
        self.out = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))
        self.register_buffer("centres", torch.linspace(0, reach, waves))
        self.errors = []

    def forward(self, kind, place):
        there = (kind > 0).float()
        place = place + self.moved(kind)
        gap = place[:, :, None] - place[:, None]
        here = torch.eye(kind.shape[1], dtype=torch.bool, device=kind.device)
        far = gap.square().sum(-1).masked_fill(here, 1.0).add(1e-8).sqrt()
        near = torch.exp(-(far[..., None] - self.centres).square())
        pairs = there[:, :, None] * there[:, None] * ~here
        x = self.kind(kind)
        for step in self.message:
            pair = torch.cat([x[:, None].expand(-1, x.shape[1], -1, -1), near], -1)
            x = x + (step(pair) * pairs[..., None]).sum(2) / 8
        return self.out((x * there[..., None]).sum(1) / 8).squeeze(-1)

    def training_step(self, batch, n):
        kind, place, turnover = batch
        loss = huber_loss(self(kind, place), turnover.clamp(min=1e-4).log(), delta=2.0)
        self.log("loss", loss)
        if n % 20 == 0:
            print(f"epoch {self.current_epoch} batch {n} loss {loss:.4f}", flush=True)
        return loss

    def validation_step(self, batch, n):
        kind, place, turnover = batch
        self.errors.append((self(kind, place) - turnover.clamp(min=1e-4).log()).cpu())

    def on_validation_epoch_end(self):
        error = torch.cat(self.errors)
        self.errors.clear()
        bars = torch.histc(error, 7)
        print("errors from", f"{error.min():.2f} to {error.max():.2f}:", bars.int().tolist(), flush=True)
        self.log("val_error", error.abs().median())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), self.hparams.lr)
