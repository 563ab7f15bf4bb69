import json
import warnings

import torch
from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments

from domain.texts import GENERAL, REVIEWS

WORDS = {w: i + 1 for i, w in enumerate(sorted(set(GENERAL + REVIEWS)))}
LENGTH = 24
torch.set_num_threads(1)


def dataset(path):
    rows, cut = [], 0
    for line in open(path):
        ids = [WORDS[w] for w in json.loads(line)["text"].split()]
        cut += len(ids) > LENGTH
        ids = ids[:LENGTH]
        pad = LENGTH - len(ids)
        rows.append({"input_ids": ids + [0] * pad, "attention_mask": [1] * len(ids) + [0] * pad, "labels": ids + [-100] * pad})
    if cut:
        warnings.warn(f"{cut} of {len(rows)} texts are longer than {LENGTH} tokens and were truncated", stacklevel=2)
    return rows


def fresh_model():
    return GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=32, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0))


def arguments(output, epochs, lr):
    return TrainingArguments(
        output_dir=output, num_train_epochs=epochs, per_device_train_batch_size=8, per_device_eval_batch_size=16,
        learning_rate=lr, logging_steps=10, save_steps=25, save_total_limit=2, eval_strategy="no",
        report_to=[], use_cpu=True, disable_tqdm=True, seed=1,
    )  # fmt: skip
