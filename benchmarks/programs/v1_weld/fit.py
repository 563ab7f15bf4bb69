import argparse

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger

from seam.data import Seams
from seam.module import TorchPointer


class Degrees(Callback):
    def on_validation_epoch_end(self, trainer, module):
        if not trainer.sanity_checking:
            print(f"epoch {trainer.current_epoch}: off by {trainer.callback_metrics['val_angle'] * 180 / torch.pi:.2f} degrees")

    def on_train_batch_end(self, trainer, module, outputs, batch, n):
        if trainer.global_step % 15 == 0:
            rate = trainer.optimizers[0].param_groups[0]["lr"]
            print(f"step {trainer.global_step} loss {outputs['loss']:.4f} rate {rate:.2e}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seams")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--batch", type=int, default=25)
    parser.add_argument("--lr", type=float, default=6e-3)
    options = parser.parse_args()
    L.seed_everything(3, verbose=False)
    torch.set_num_threads(1)
    trainer = L.Trainer(
        max_epochs=options.epochs,
        accelerator="cpu",
        logger=CSVLogger("logs"),
        log_every_n_steps=10,
        gradient_clip_val=1.0,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[
            Degrees(),
            LearningRateMonitor(),
            EarlyStopping("val_angle", patience=6, check_finite=True),
            ModelCheckpoint("logs", save_last=True, save_top_k=0),
        ],
    )
    trainer.fit(TorchPointer(options.lr), Seams(options.seams, options.batch))


if __name__ == "__main__":
    main()
