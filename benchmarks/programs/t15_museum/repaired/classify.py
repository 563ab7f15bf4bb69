import argparse
import json
import logging

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from objects.reading import Catalogue, Departments, Vocabulary, collate, rows

logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
torch.set_num_threads(1)


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--catalogue")
    p.add_argument("--epochs", type=int)
    p.add_argument("--length", type=int)
    a = p.parse_args()
    records = rows(a.catalogue, "train")
    words, departments = Vocabulary(r["text"] for r in records), Departments()
    train = Catalogue(records, words, departments, a.length)
    validation = Catalogue(rows(a.catalogue, "validation"), words, departments, a.length)
    config = BertConfig(
        vocab_size=len(words) + 20,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=a.length,
        num_labels=len(departments),
        problem_type="single_label_classification",
    )
    model = BertForSequenceClassification(config)
    arguments = TrainingArguments(
        output_dir="museum_out",
        num_train_epochs=a.epochs,
        per_device_train_batch_size=24,
        per_device_eval_batch_size=32,
        learning_rate=4e-3,
        eval_strategy="epoch",
        save_strategy="no",
        logging_steps=10,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        seed=13,
    )
    trainer = Trainer(model, arguments, train_dataset=train, eval_dataset=validation, data_collator=collate, compute_metrics=accuracy)
    trainer.train()
    with open("result.json", "w") as f:
        json.dump(trainer.evaluate(), f)


if __name__ == "__main__":
    main()
