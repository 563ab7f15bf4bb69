import json
import logging
import sys

import torch
from transformers import Trainer, TrainingArguments

from siam.model import Siamese
from siam.reading import collate, read

logging.basicConfig(level=logging.WARNING)
torch.set_num_threads(1)


def metrics_with(margin):
    def metrics(prediction):
        said = prediction.predictions < margin / 2
        return {"accuracy": float((said == (prediction.label_ids > 0.5)).mean())}

    return metrics


def main(path):
    with open(path) as f:
        settings = json.load(f)
    torch.manual_seed(settings["trainer"]["seed"])
    model = Siamese(settings["hidden"], settings["margin"])
    trainer = Trainer(
        model,
        TrainingArguments(**settings["trainer"]),
        train_dataset=read(f"{settings['pairs']}/train.csv"),
        eval_dataset=read(f"{settings['pairs']}/dev.csv"),
        data_collator=collate,
        compute_metrics=metrics_with(settings["margin"]),
    )
    trainer.train()
    torch.save(model.state_dict(), "pairs.pt")


if __name__ == "__main__":
    main(sys.argv[1])
