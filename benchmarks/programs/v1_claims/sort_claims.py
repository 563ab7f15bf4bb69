import json
import logging
import os
from dataclasses import dataclass

import numpy as np
import torch
from transformers import BertForSequenceClassification, HfArgumentParser, Trainer, TrainerCallback, TrainingArguments

from desk.letters import DESKS
from desk.text import Letters, Vocabulary, collate, read

logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s")
log = logging.getLogger("claims")


@dataclass
class Ours:
    letters: str
    start: str


class SlowLayers(TrainerCallback):
    """The warm layers wait until the new head knows something."""

    def __init__(self, steps):
        self.steps = steps

    def on_step_begin(self, args, state, control, model=None, **kwargs):
        if state.global_step in (0, self.steps):
            model.bert.embeddings.requires_grad_(state.global_step >= self.steps)
            log.info("step %d: embeddings %s", state.global_step, "trained" if state.global_step else "frozen")


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def table(prediction):
    names = list(DESKS)
    counts = np.zeros((len(names), len(names)), int)
    for truth, guess in zip(prediction.label_ids, prediction.predictions.argmax(-1)):
        counts[truth, guess] += 1
    for name, row in zip(names, counts):
        print(f"{name:8}", " ".join(f"{c:4d}" for c in row))


def main():
    ours, args = HfArgumentParser((Ours, TrainingArguments)).parse_args_into_dataclasses()
    torch.set_num_threads(1)
    rows = read(ours.letters)
    held, training = rows[:200], rows[200:]
    vocabulary = Vocabulary([])
    with open(os.path.join(ours.start, "words.json")) as f:
        vocabulary.ids = json.load(f)
    model = BertForSequenceClassification.from_pretrained(ours.start, num_labels=len(DESKS))
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=Letters(training, vocabulary),
        eval_dataset=Letters(held, vocabulary),
        data_collator=collate,
        compute_metrics=accuracy,
        callbacks=[SlowLayers(10)],
    )
    trainer.train()
    table(trainer.predict(Letters(held, vocabulary)))
    trainer.save_model("sorted/final")


if __name__ == "__main__":
    main()
