import lightning as L
import torch
from torch import nn
from torch.nn import functional as F

from lichen.survey import GENERA


class GenusNet(L.LightningModule):
    def __init__(self, lr=3e-3, width=16, weights=None):
        super().__init__()
        self.save_hyperparameters(ignore="weights")
        self.register_buffer("weights", weights)
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2))
        self.body = nn.Sequential(nn.Conv2d(width, width * 2, 3, padding=1), nn.BatchNorm2d(width * 2), nn.ReLU())
        self.head = nn.Linear(width * 2, len(GENERA))
        self.right, self.seen = 0, 0

    def forward(self, image):
        return self.head(self.body(self.stem(image)).amax((2, 3)))

    def training_step(self, batch, _):
        image, genus = batch
        loss = F.cross_entropy(self(image), genus, weight=self.weights)
        self.log("train_loss", loss, on_step=True, on_epoch=True)
        return loss

    def on_train_epoch_start(self):
        self.right, self.seen = 0, 0

    def validation_step(self, batch, _):
        image, genus = batch
        self.right += int((self(image).argmax(-1) == genus).sum())
        self.seen += len(genus)

    def accuracy(self):
        return self.right / max(1, self.seen)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), self.hparams.lr, weight_decay=0.05)
        steps = self.trainer.estimated_stepping_batches
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, self.hparams.lr, total_steps=steps)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]
