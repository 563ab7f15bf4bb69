import lightning as L
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Sequential):
    def __init__(self, width, classes):
        super().__init__(
            nn.Conv2d(1, width, 3, padding=1, stride=2), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
            nn.Upsample(scale_factor=2), nn.Conv2d(width, classes, 3, padding=1),
        )  # fmt: skip


class LesionModule(L.LightningModule):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.net = Net(**cfg["net"])
        self.volumes = []
        self.dice_history = []

    def training_step(self, batch, _):
        scan, mask = batch
        loss = F.cross_entropy(self.net(scan), mask)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, _):
        scan, mask = batch
        self.volumes.append((self.net(scan).softmax(1), mask))

    def on_validation_epoch_end(self):
        probs = torch.cat([p for p, _ in self.volumes[-4:]])
        masks = torch.cat([m for _, m in self.volumes[-4:]])
        onehot = F.one_hot(masks, probs.shape[1]).movedim(-1, 1)
        dice = 2 * (probs * onehot).sum((0, 2, 3)) / (probs + onehot).sum((0, 2, 3))
        self.dice_history.append(dice.mean().item())
        print(f"epoch {self.current_epoch:3d} dice {dice.mean():.3f} worst class {dice.min():.3f}", flush=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), **self.cfg["optim"])
