import argparse

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint

from brick.firing import Kiln
from brick.model import Faults


class Lines(Callback):
    """One line every so many steps; the progress bar fills up the log of the queue."""

    def __init__(self, every):
        self.every = every

    def on_train_batch_end(self, trainer, module, outputs, batch, n):
        if trainer.global_step % self.every == 0:
            rate = trainer.optimizers[0].param_groups[0]["lr"]
            print(f"step {trainer.global_step} loss {outputs['loss'].item():.4f} lr {rate:.1e}", flush=True)

    def on_validation_epoch_end(self, trainer, module):
        if not trainer.sanity_checking:
            shown = {k: round(v.item(), 4) for k, v in trainer.callback_metrics.items()}
            print(f"epoch {trainer.current_epoch}", shown, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", type=int, default=3200)
    parser.add_argument("--val", type=int, default=400)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--drop", type=float, default=0.3)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--warmup", type=int, default=60)
    parser.add_argument("--smoothing", type=float, default=0.05)
    o = parser.parse_args()
    L.seed_everything(3)
    torch.set_num_threads(1)
    trainer = L.Trainer(
        max_epochs=o.epochs,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        gradient_clip_val=1.0,
        callbacks=[Lines(20), ModelCheckpoint("kept", monitor="accuracy", mode="max")],
    )
    trainer.fit(Faults(o.width, o.drop, o.lr, o.warmup, o.smoothing), Kiln(o.train, o.val, o.batch))
    print("best accuracy", round(trainer.checkpoint_callback.best_model_score.item(), 3))
