import argparse

import numpy as np
import yaml
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

from sayings.corpus import LENGTH, Proverbs
from sayings.watch import Card


def metrics(pair):
    guess = np.argmax(pair.predictions, -1)
    return {"accuracy": float((guess == pair.label_ids).mean())}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    with open(parser.parse_args().config) as f:
        config = yaml.safe_load(f)
    set_seed(config["seed"])
    model = BertForSequenceClassification(
        BertConfig(vocab_size=128, max_position_embeddings=LENGTH, num_labels=4, **config["model"])
    )
    trainer = Trainer(
        model=model,
        args=TrainingArguments(report_to=[], use_cpu=True, disable_tqdm=True, **config["trainer"]),
        train_dataset=Proverbs(config["train"], 1),
        eval_dataset=Proverbs(config["held"], 2),
        compute_metrics=metrics,
        callbacks=[Card("proverbs by region")],
    )
    trainer.train()
    print(trainer.evaluate())
    trainer.save_model("regions")


if __name__ == "__main__":
    main()
