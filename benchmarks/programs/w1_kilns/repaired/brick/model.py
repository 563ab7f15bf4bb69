import lightning as L
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from brick.firing import FAULTS


class Faults(L.LightningModule):
    def __init__(self, width, drop, lr, warmup, smoothing):
        super().__init__()
        self.save_hyperparameters()
        self.moments = nn.Conv1d(8, 32, 7, padding=3)     # fixed random filters, as in Rahimi and Recht
        self.moments.requires_grad_(False)
        self.body = nn.Sequential(
            nn.GroupNorm(4, 32), nn.SiLU(), nn.Conv1d(32, width, 5, 2, 2), nn.SiLU(), nn.Conv1d(width, width, 5, 2, 2), nn.SiLU()
        )
        self.out = nn.Sequential(nn.Dropout(drop), nn.Linear(width, len(FAULTS)))

    def forward(self, temperature):
        x = (temperature.transpose(1, 2) - 600) / 300
        with torch.no_grad():
            x = self.moments(x)
        return self.out(self.body(x).amax(-1))

    def training_step(self, batch, n):
        temperature, fault = batch
        loss = cross_entropy(self(temperature), fault, label_smoothing=self.hparams.smoothing)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, n):
        temperature, fault = batch
        guess = self(temperature)
        self.log("val_loss", cross_entropy(guess, fault), prog_bar=True)
        self.log("accuracy", (guess.argmax(-1) == fault).float().mean(), prog_bar=True)

    def configure_optimizers(self):
        free = [p for p in self.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(free, self.hparams.lr, weight_decay=0.01)
        warm = self.hparams.warmup
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(step, warm) / warm)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
