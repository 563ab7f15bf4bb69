import argparse
import warnings

import lightning as L
import torch
import yaml
from torch.utils.data import DataLoader

from lesions.module import LesionModule
from lesions.slices import Slices

warnings.filterwarnings("ignore", ".*does not have many workers.*")
torch.set_num_threads(1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--cfg")
    cfg = yaml.safe_load(open(p.parse_args().cfg))
    L.seed_everything(cfg["seed"])
    d = cfg["data"]
    train = DataLoader(Slices(d["root"], 0, -d["val_patients"]), d["batch"], shuffle=True)
    val = DataLoader(Slices(d["root"], -d["val_patients"], None), 16)
    trainer = L.Trainer(
        max_epochs=cfg["epochs"], accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
    )  # fmt: skip
    module = LesionModule(cfg)
    trainer.fit(module, train, val)
    print("best dice", max(module.dice_history))


if __name__ == "__main__":
    main()
