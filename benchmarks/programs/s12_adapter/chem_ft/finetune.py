import sys

import lightning as L
import torch
import yaml
from torch.utils.data import DataLoader, TensorDataset

from chem_ft.spectra import spectra
from chem_ft.task import PatternTask


def main(path):
    with open(path) as f:
        cfg = yaml.safe_load(f)
    torch.set_num_threads(1)
    L.seed_everything(2)
    train = DataLoader(TensorDataset(*spectra(1000, "kind", 1)), cfg["batch"], shuffle=True)
    val = DataLoader(TensorDataset(*spectra(400, "kind", 2)), 50)
    task = PatternTask(cfg)
    trainer = L.Trainer(
        max_epochs=cfg["epochs"], accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False, gradient_clip_val=cfg["clip"], limit_val_batches=cfg["limit_val_batches"],
    )  # fmt: skip
    trainer.fit(task, train, val)
    trainer.save_checkpoint("pattern.ckpt")


if __name__ == "__main__":
    main(sys.argv[1])
