import copy
import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from moco.queue import NegativeQueue


class MoCo(L.LightningModule):
    def __init__(self, dim=32, queue=512, lr=0.3, tau=0.2, m=0.99):
        super().__init__()
        self.save_hyperparameters()
        self.q = nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, dim))
        self.k = copy.deepcopy(self.q).requires_grad_(False)
        self.queue = NegativeQueue(dim, queue)

    def training_step(self, batch, batch_idx):
        a, b = batch
        with torch.no_grad():
            for pq, pk in zip(self.q.parameters(), self.k.parameters()):
                pk.lerp_(pq, 1 - self.hparams.m)
            k = F.normalize(self.k(b), dim=1)
        q = F.normalize(self.q(a), dim=1)
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ self.queue.bank.clone()], 1) / self.hparams.tau
        loss = F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long))
        self.queue.push(k)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        opt = torch.optim.SGD(self.q.parameters(), lr=self.hparams.lr, momentum=0.9)
        return {"optimizer": opt, "lr_scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(opt, self.trainer.max_epochs)}
