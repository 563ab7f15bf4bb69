import argparse
import os

import torch
import yaml
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint

from kitchen.callback import Kitchen
from kitchen.cards import LENGTH, PANTRY, Cards


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--go-on", action="store_true", help="from the last checkpoint, if there is one")
    options = parser.parse_args()
    with open(options.config) as f:
        config = yaml.safe_load(f)
    set_seed(config["seed"])
    torch.set_num_threads(1)
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=PANTRY, n_positions=LENGTH, bos_token_id=1, eos_token_id=9, **config["model"])
    )
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} million parameters")
    settings = TrainingArguments(report_to=[], use_cpu=True, disable_tqdm=True, **config["trainer"])
    trainer = Trainer(model, settings, train_dataset=Cards(config["cards"], 1), eval_dataset=Cards(config["held"], 2), callbacks=[Kitchen()])
    there = os.path.isdir(settings.output_dir) and get_last_checkpoint(settings.output_dir)
    if options.go_on and not there:
        print("no checkpoint to go on from, from the start")
    trainer.train(resume_from_checkpoint=there if options.go_on and there else None)
    trainer.save_model("menu")


if __name__ == "__main__":
    main()
