import argparse
import time

import h5py
import torch
import yaml
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from moon.net import build

torch.set_num_threads(1)


def part(path, name):
    with h5py.File(path, "r") as f:
        image, heat = (torch.from_numpy(f[f"{name}/{k}"][:]) for k in ("image", "heat"))
    return TensorDataset(image.unsqueeze(1) - 0.5, heat)


@torch.no_grad()
def precision(model, loader, accelerator):
    """Share of the strongest answers that are centres, as many as there are."""
    scores, truth = [], []
    for image, heat in loader:
        score, heat = accelerator.gather_for_metrics((model(image).squeeze(1), heat))
        scores.append(score.flatten())
        truth.append(heat.flatten())
    scores, truth = torch.cat(scores), torch.cat(truth)
    return truth[scores.topk(int(truth.sum())).indices].mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--config")
    with open(p.parse_args().config) as f:
        conf = yaml.safe_load(f)
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(conf["seed"])
    micro, world = conf["micro_batch"], accelerator.num_processes
    accumulate = conf["effective_batch"] // (micro * world)
    train = DataLoader(part(conf["scenes"], "train"), micro, shuffle=True)
    val = DataLoader(part(conf["scenes"], "val"), micro)
    model = build()
    o = conf["optimizer"]
    optimizer = torch.optim.AdamW(model.parameters(), o["lr"], eps=o["eps"])
    model, optimizer, train, val = accelerator.prepare(model, optimizer, train, val)
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(conf["loss"]["positive_weight"]))
    accelerator.print(f"{len(train)} batches of {micro} on {world} processes, accumulating {accumulate}")
    for epoch in range(conf["epochs"]):
        model.train()
        optimizer.zero_grad()
        total = 0.0
        for n, (image, heat) in enumerate(train, 1):
            loss = criterion(model(image).squeeze(1), heat)
            accelerator.backward(loss / accumulate)
            total += loss.item()
            if n % accumulate == 0:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        model.eval()
        score = precision(model, val, accelerator)
        accelerator.print(f"epoch {epoch} loss {total / len(train):.4f} precision {score:.3f}")
    accelerator.wait_for_everyone()
    accelerator.save_model(model, "craters")
    accelerator.end_training()
    time.sleep(0.5)  # the last lines of all ranks


if __name__ == "__main__":
    main()
