import argparse
import warnings

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from ecg.beats import beats
from ecg.encoder import Encoder

warnings.filterwarnings("ignore", message=".*num_workers.*")


class Contrastive(L.LightningModule):
    """Two noisy, shifted views of a beat have to find each other."""

    def __init__(self, lr=3e-3, temperature=0.2):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = Encoder()
        self.projector = nn.Sequential(nn.GELU(), nn.Linear(16, 32))

    def view(self, x):
        shift = int(torch.randint(-8, 9, ()))
        gain = torch.rand(len(x), 1, 1) * 0.6 + 0.7
        t = torch.linspace(0, 1, x.shape[-1]) * (torch.rand(len(x), 1, 1) + 0.2)
        drift = 0.3 * torch.sin(2 * torch.pi * (t + torch.rand(len(x), 1, 1)))
        return x.roll(shift, -1) * gain + 0.05 * torch.randn_like(x) + drift

    def training_step(self, batch, _):
        (x,) = batch
        a, b = (nn.functional.normalize(self.projector(self.encoder(self.view(x))), dim=-1) for _ in range(2))
        scores = a @ b.T / self.hparams.temperature
        loss = nn.functional.cross_entropy(scores, torch.arange(len(x)))
        self.log("loss", loss, on_epoch=True)
        return loss

    def on_train_epoch_end(self):
        print(f"pretraining epoch {self.current_epoch}: loss {self.trainer.callback_metrics['loss_epoch']:.3f}")

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), self.hparams.lr)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int)
    p.add_argument("--ckpt")
    a = p.parse_args()
    L.seed_everything(4, verbose=False)
    torch.set_num_threads(1)
    loader = DataLoader(TensorDataset(beats(3000, 0)[0]), 64, shuffle=True, drop_last=True)
    trainer = L.Trainer(
        max_epochs=a.epochs,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=ModelCheckpoint(a.ckpt, "encoder"),
    )
    trainer.fit(Contrastive(), loader)


if __name__ == "__main__":
    main()
