import lightning as L
import torch
from torch import nn

from seam.geometry import angle, bend, direction


class TorchPointer(L.LightningModule):
    def __init__(self, lr=6e-3, smooth=0.01, width=64):
        super().__init__()
        self.save_hyperparameters()
        self.place = nn.Sequential(nn.Linear(16, width), nn.GELU(), nn.Linear(width, width), nn.GELU())
        self.along = nn.Conv1d(width, width, 3, padding=1)
        self.out = nn.Linear(width, 3)

    def forward(self, profile):
        x = self.place(profile.clamp(-5, 5))
        x = x + nn.functional.gelu(self.along(x.transpose(1, 2))).transpose(1, 2)
        return direction(self.out(x))

    def training_step(self, batch, _):
        profile, truth = batch
        guess = self(profile)
        error = angle(guess, truth).mean()
        loss = error + self.hparams.smooth * bend(guess)
        self.log("train_angle", error, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch, _):
        profile, truth = batch
        self.log("val_angle", angle(self(profile), truth).mean(), batch_size=len(profile))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), self.hparams.lr, amsgrad=True)
        total = self.trainer.estimated_stepping_batches
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, self.hparams.lr, total_steps=total, pct_start=0.4)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
