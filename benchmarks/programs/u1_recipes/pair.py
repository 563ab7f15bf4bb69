import argparse
import csv
import json
import logging

import torch
from torch.utils.data import Dataset
from transformers import HfArgumentParser, Trainer, TrainerCallback, TrainingArguments

from cook.towers import PairConfig, RecipePair
from cook.words import Collator, Words

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")


class Recipes(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, n):
        return self.rows[n]


class Tell(TrainerCallback):
    def on_epoch_begin(self, args, state, control, **kwargs):
        print(f"epoch {int(state.epoch or 0)} begins at step {state.global_step} of {state.max_steps}", flush=True)


def main():
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--recipes")
    own.add_argument("--model-config")
    options, rest = own.parse_known_args()
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses(rest)
    args.remove_unused_columns = False
    args.disable_tqdm = True
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)

    with open(options.recipes, newline="") as f:
        rows = list(csv.DictReader(f))
    held, training = rows[:96], rows[96:]
    words = Words(row["title"] + " " + row["ingredients"] for row in training)
    with open(options.model_config) as f:
        config = PairConfig(words=len(words), **json.load(f))
    logging.info("%d recipes for training, %d held out, %d words", len(training), len(held), len(words))

    trainer = Trainer(
        model=RecipePair(config),
        args=args,
        train_dataset=Recipes(training),
        eval_dataset=Recipes(held),
        data_collator=Collator(words, config.longest),
        callbacks=[Tell()],
    )
    trainer.train()
    print(trainer.evaluate())
    trainer.save_model("out/final")


if __name__ == "__main__":
    main()
