import lightning as L
import torch
import torch.nn.functional as F
from torch import nn


class Classifier(L.LightningModule):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.stem = nn.Sequential(nn.Conv2d(1, 12, 5, 2), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(12, 24, 3, 2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(cfg["classes"]))
        self.hits, self.seen = 0, 0
        self.best = 0.0
        if cfg["stem"] == "frozen":
            self.stem.requires_grad_(False)
            print("stem frozen: 2 of 6 tensors will get no gradient")

    def forward(self, x):
        return self.body(self.stem(x))

    def training_step(self, batch, _):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train/loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        self.hits += int((self(x).argmax(1) == y).sum())
        self.seen += len(y)

    def on_train_epoch_end(self):
        accuracy = self.hits / max(self.seen, 1)
        self.best = max(self.best, accuracy)
        self.print(f"epoch {self.current_epoch} loss {self.trainer.callback_metrics['train/loss']:.3f} val acc {accuracy:.3f}")
        self.hits = self.seen = 0

    def configure_optimizers(self):
        return torch.optim.AdamW([p for p in self.parameters() if p.requires_grad], **self.cfg["optim"])
