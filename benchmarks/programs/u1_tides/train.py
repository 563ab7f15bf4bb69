import argparse
import os
import time

import torch
import yaml

from gauge.model import Forecaster
from gauge.scores import Skill, Smoothed
from gauge.windows import Windows


def validate(model, windows, batch, rounds=6):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for _ in range(rounds):
            past, future = windows.batch(batch * 2)
            total += (model(past) - future).square().mean().item()
    model.train()
    return (total / rounds) ** 0.5


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    with open(parser.parse_args().config) as f:
        config = yaml.safe_load(f)
    data, train = config["data"], config["train"]
    torch.manual_seed(3)
    torch.set_num_threads(1)
    os.makedirs(train["out"], exist_ok=True)

    model = Forecaster(horizon=data["horizon"], **config["model"])
    optimizer = torch.optim.AdamW(model.parameters(), train["lr"])
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, train["lr"] * 2, total_steps=train["epochs"] * train["steps_per_epoch"]
    )
    training, held = Windows(data, "train", 1), Windows(data, "held", 2)
    best, smooth, skill = float("inf"), Smoothed(), Skill()
    start = time.time()
    for epoch in range(train["epochs"]):
        for step in range(train["steps_per_epoch"]):
            past, future = training.batch(train["batch"])
            guess = model(past)
            loss = torch.nn.functional.smooth_l1_loss(guess, future)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), train["clip"])
            optimizer.step()
            schedule.step()
            smooth.update(loss.item())
            past, future = held.batch(train["probe"])
            skill.update(model(past), past, future)
            if (step + 1) % train["report_every"] == 0:
                print(
                    f"epoch {epoch} step {step + 1} hours {past.shape[1]} loss {smooth.read():.4f} "
                    f"skill {skill.read():.3f} ({time.time() - start:.0f} s)"
                )
        error = validate(model, held, train["batch"])
        print(f"epoch {epoch}: held-out error {error:.3f} m, cache {training.piece.cache_info().currsize} pieces")
        if error < best:
            best = error
            torch.save({"model": model.state_dict(), "error": error}, os.path.join(train["out"], "best.pt"))
    print(f"best {best:.3f} m")


if __name__ == "__main__":
    main()
