import argparse
import warnings
import lightning as L
import yaml
from plant.data import PlantData
from plant.module import Printer, Regressor

if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--config", required=True)
    cfg = yaml.safe_load(open(ap.parse_args().config))
    if cfg["model"]["lr"] > 0.01:
        warnings.warn(f"lr {cfg['model']['lr']} is above the recommended 0.01 for AdamW")
    L.seed_everything(11)
    trainer = L.Trainer(accelerator="cpu", max_epochs=cfg["trainer"]["max_epochs"], logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
                        callbacks=[Printer(cfg["trainer"]["log_every"])])
    trainer.fit(Regressor(**cfg["model"]), PlantData(**cfg["data"]))
    trainer.save_checkpoint("plant.ckpt")
    print("finished")
