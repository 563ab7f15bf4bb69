import argparse
import json
import logging
import warnings

import lightning as L
import torch
import yaml

from spots.classifier import Classifier
from spots.datamodule import Pollen

torch.set_num_threads(1)
warnings.filterwarnings("ignore", module="lightning")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    with open(parser.parse_args().config) as f:
        cfg = yaml.safe_load(f)
    L.seed_everything(0)
    data, model = Pollen(cfg), Classifier(cfg)
    model(torch.zeros(1, 1, 24, 24))
    trainer = L.Trainer(max_epochs=cfg["epochs"], accelerator="cpu", logger=False, enable_checkpointing=False,
                        enable_model_summary=False, enable_progress_bar=False, log_every_n_steps=1)  # fmt: skip
    trainer.fit(model, datamodule=data)
    trainer.save_checkpoint("pollen.ckpt")
    with open("result.json", "w") as out:
        json.dump({"val_acc": model.best, "epochs": trainer.current_epoch}, out)


if __name__ == "__main__":
    main()
