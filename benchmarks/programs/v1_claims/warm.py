"""Masked words on all letters, so that the classifier does not start from nothing."""
import argparse
import json
import os

import torch
from transformers import BertConfig, BertForMaskedLM

from desk.text import LONGEST, MASK, Letters, Vocabulary, collate, read


def masked(ids, g):
    hide = (torch.rand(ids.shape, generator=g) < 0.2) & (ids > 2)
    return ids.masked_fill(hide, MASK), ids.masked_fill(~hide, -100)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--letters")
    parser.add_argument("--out")
    parser.add_argument("--steps", type=int)
    options = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    rows = read(options.letters)
    vocabulary = Vocabulary(rows)
    letters = Letters(rows, vocabulary)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=112, num_hidden_layers=3, num_attention_heads=4, intermediate_size=256,
        max_position_embeddings=LONGEST, pad_token_id=0,
    )  # fmt: skip
    model = BertForMaskedLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    g = torch.Generator().manual_seed(2)
    for step in range(1, options.steps + 1):
        part = torch.randint(len(letters), (32,), generator=g).tolist()
        batch = collate([letters[n] for n in part])
        ids, target = masked(batch["input_ids"], g)
        loss = model(input_ids=ids, attention_mask=batch["attention_mask"], labels=target).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 30 == 0:
            print(f"warm step {step} loss {loss.item():.3f}")
    model.save_pretrained(options.out)
    with open(os.path.join(options.out, "words.json"), "w") as f:
        json.dump(vocabulary.ids, f)
    print(f"{sum(p.numel() for p in model.parameters())} parameters kept in {options.out}")


if __name__ == "__main__":
    main()
