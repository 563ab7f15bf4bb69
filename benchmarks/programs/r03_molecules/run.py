import argparse
import json
import logging
import os

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader

from chem.records import Records
from chem.scores import spearman

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
torch.set_num_threads(1)


def mlp(inputs, hidden, outputs):
    return nn.Sequential(nn.Linear(inputs, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, outputs))


def evaluate(accelerator, model, loader, targets):
    model.eval()
    preds, trues = [], []
    with torch.no_grad():
        for x, y in loader:
            pred, true = accelerator.gather_for_metrics((model(x).float(), y))
            preds.append(pred)
            trues.append(true)
    model.train()
    pred, true = torch.cat(preds), torch.cat(trues)
    return {name: spearman(pred[:, k], true[:, k]).item() for k, name in enumerate(targets)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config")
    parser.add_argument("--out")
    args = parser.parse_args()
    cfg = json.load(open(args.config))
    set_seed(5)
    accelerator = Accelerator(cpu=True, mixed_precision=cfg["mixed_precision"])
    if accelerator.mixed_precision == "bf16":
        logging.warning("bf16 keeps 8 bits of mantissa; the regression may lose precision")
    train = DataLoader(Records("data/train.jsonl", cfg["targets"]), cfg["batch_size"], shuffle=True)
    val = DataLoader(Records("data/val.jsonl", cfg["targets"]), 64)
    model = mlp(6, cfg["hidden"], len(cfg["targets"]))
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    model, optimizer, train, val = accelerator.prepare(model, optimizer, train, val)
    best = -1.0
    for epoch in range(cfg["epochs"]):
        for x, y in train:
            with accelerator.autocast():
                loss = nn.functional.huber_loss(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        scores = evaluate(accelerator, model, val, cfg["targets"])
        best = max(best, scores["logp"])
        accelerator.print(f"epoch {epoch} " + " ".join(f"{k} {v:.3f}" for k, v in scores.items()))
    accelerator.save_model(model, os.path.join(args.out, "final"))


if __name__ == "__main__":
    main()
