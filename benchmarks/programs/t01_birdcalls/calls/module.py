import lightning as L
import torch
from torch import nn


def encoder(width, dropout):
    return nn.Sequential(
        nn.Conv2d(1, width, 5, stride=2),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Conv2d(width, width * 2, 3, stride=2),
        nn.BatchNorm2d(width * 2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d((4, 1)),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(width * 8, 6),
    )


class CallClassifier(L.LightningModule):
    def __init__(self, lr=0.03, warmup=60, width=8, dropout=0.2):
        super().__init__()
        self.save_hyperparameters()
        self.net = encoder(width, dropout)
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.05)

    def forward(self, x):
        return self.net(x.log1p().unsqueeze(1))

    def training_step(self, batch, _):
        x, y = batch
        loss = self.criterion(self(x), y)
        self.log("train_loss", loss, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        scores = self(x)
        self.log("val_loss", self.criterion(scores, y))
        self.log("val_acc", (scores.argmax(-1) == y).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), self.hparams.lr, momentum=0.9, nesterov=True)
        warmup, total = self.hparams.warmup, self.trainer.estimated_stepping_batches

        def factor(step):
            if step < warmup:
                return (step + 1) / warmup
            return max(0.05, (total - step) / (total - warmup))

        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "name": "lr"}}
