import argparse
import json

import lightning as L
import torch
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger

from lichen.model import GenusNet
from lichen.plates import Survey


class Scores(L.Callback):
    def __init__(self, path):
        self.path, self.history = path, []

    def on_train_epoch_end(self, trainer, module):
        loss = trainer.callback_metrics["train_loss_epoch"].item()
        self.history.append({"epoch": trainer.current_epoch, "train_loss": loss, "val_accuracy": module.accuracy()})
        print(f"epoch {trainer.current_epoch}: train loss {loss:.4f}, val accuracy {module.accuracy():.3f}")

    def on_fit_end(self, trainer, module):
        best = max(self.history, key=lambda row: row["val_accuracy"])
        with open(self.path, "w") as f:
            json.dump({"best": best, "history": self.history}, f, indent=1)
        print(f"best val accuracy {best['val_accuracy']:.3f} in epoch {best['epoch']}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root")
    parser.add_argument("--holdout", type=lambda text: text.split(","), default=[])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--max-epochs", type=int, default=6)
    parser.add_argument("--out", default="logs")
    options = parser.parse_args()
    L.seed_everything(11)
    torch.set_num_threads(1)
    survey = Survey(options.root, options.holdout, options.batch)
    survey.setup()
    print(f"{len(survey.train_part)} plates for training, class weights {[round(w, 2) for w in survey.class_weights().tolist()]}")
    trainer = L.Trainer(
        max_epochs=options.max_epochs,
        accelerator="cpu",
        logger=CSVLogger(options.out),
        log_every_n_steps=5,
        enable_progress_bar=False,
        gradient_clip_val=0.5,
        num_sanity_val_steps=0,
        callbacks=[Scores("scores.json"), LearningRateMonitor(), ModelCheckpoint(options.out, save_last=True)],
    )
    trainer.fit(GenusNet(options.lr, weights=survey.class_weights()), datamodule=survey)


if __name__ == "__main__":
    main()
