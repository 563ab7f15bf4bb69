import argparse

from transformers import Trainer

from domain.common import arguments, dataset, fresh_model

parser = argparse.ArgumentParser()
parser.add_argument("--texts")
parser.add_argument("--output")
parser.add_argument("--epochs", type=int)
args = parser.parse_args()

trainer = Trainer(fresh_model(), arguments(args.output, args.epochs, 8e-3), train_dataset=dataset(args.texts))
trainer.train()
trainer.save_model(args.output)
print("general model saved to", args.output)
