import argparse

import lightning as L
import torch
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger

from calls.loading import Clips
from calls.module import CallClassifier


class Report(L.Callback):
    def on_validation_epoch_end(self, trainer, module):
        m = trainer.callback_metrics
        if trainer.sanity_checking:
            return
        print(f"epoch {trainer.current_epoch} val_loss {m['val_loss']:.4f} val_acc {m['val_acc']:.3f}", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--clips")
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--batch", type=int, default=30)
    p.add_argument("--clip_grad", type=float, default=1.0)
    p.add_argument("--lr", type=float, default=0.03)
    p.add_argument("--out", default="logs")
    a = p.parse_args()
    L.seed_everything(8)
    torch.set_num_threads(1)
    trainer = L.Trainer(
        max_epochs=a.epochs,
        accelerator="cpu",
        gradient_clip_val=a.clip_grad,
        logger=CSVLogger(a.out),
        log_every_n_steps=5,
        enable_progress_bar=False,
        callbacks=[Report(), LearningRateMonitor(), ModelCheckpoint(a.out, monitor="val_acc", mode="max")],
    )
    trainer.fit(CallClassifier(lr=a.lr), Clips(a.clips, a.batch))
    print("best", trainer.checkpoint_callback.best_model_path)


if __name__ == "__main__":
    main()
