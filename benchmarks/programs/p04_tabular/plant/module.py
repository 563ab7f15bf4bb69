import lightning as L
import numpy as np
import torch
from torch import nn


class Regressor(L.LightningModule):
    def __init__(self, hidden, lr, dropout):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(16, hidden), nn.SiLU(), nn.Dropout(dropout), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1))
        self.preds = []

    def training_step(self, batch, i):
        x, y = batch
        loss = nn.functional.huber_loss(self.net(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, i):
        self.preds.append(self.net(batch[0]).flatten())

    def on_validation_epoch_end(self):
        p = torch.cat(self.preds).numpy()
        self.preds.clear()
        counts, edges = np.histogram(p, bins=8)
        print("prediction histogram", dict(zip(np.round(edges[:-1], 1).tolist(), counts.tolist())))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


class Printer(L.Callback):
    def __init__(self, every):
        self.every, self.best = every, None

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        v = outputs["loss"].item()
        self.best = v if self.best is None else min(self.best, v)
        if trainer.global_step % self.every == 0:
            print(f"epoch {trainer.current_epoch} step {trainer.global_step} best {self.best:.4f}", flush=True)
