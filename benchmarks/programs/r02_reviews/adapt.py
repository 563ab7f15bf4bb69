"""Go on with the general model on the texts of the domain."""
import argparse
import json
import os

from transformers import GPT2LMHeadModel, Trainer
from transformers.trainer_utils import get_last_checkpoint

from domain.common import arguments, dataset


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts")
    parser.add_argument("--output")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--lr", type=float, default=4e-3)
    return parser.parse_args()


def main():
    args = parse()
    rows = dataset(args.texts)
    model = GPT2LMHeadModel.from_pretrained(args.output)
    trainer = Trainer(
        model,
        arguments(args.output, args.epochs, args.lr),
        train_dataset=rows[:340],
        eval_dataset=rows[340:],
    )
    last = get_last_checkpoint(args.output)
    trainer.train(resume_from_checkpoint=last)
    metrics = trainer.evaluate()
    trainer.save_model(args.output)
    with open(os.path.join(args.output, "adapted.json"), "w") as out:
        json.dump(metrics, out)


if __name__ == "__main__":
    main()
