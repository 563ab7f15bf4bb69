import argparse
import math
import time

import torch
import yaml
from torch.utils.data import DataLoader, TensorDataset

from core.net import PowerNet
from core.plant import LOST, cores
from core.rate import Rate


def error(guess, power, floor):
    """Squared error relative to the power, over the detectors that work."""
    works = power > LOST / 2
    gap = (guess - power) / power.abs().clamp(min=floor).sqrt()
    return gap[works].square().mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--out", default="power.pt")
    options = parser.parse_args()
    with open(options.config) as f:
        config = yaml.safe_load(f)
    torch.manual_seed(config["seed"])
    torch.set_num_threads(1)

    maps, power = cores(config["cores"], 1)
    print(f"{(power == LOST).float().mean():.4f} of the detectors lost, least power {power[power > LOST].min():.3f}")
    train = DataLoader(TensorDataset(maps, power), config["batch"], shuffle=True, drop_last=True)
    held = cores(config["held"], 2)
    net = PowerNet(config["width"], config["depth"])
    optimizer = torch.optim.SGD(net.parameters(), config["peak"], config["momentum"], nesterov=True)
    steps = config["epochs"] * len(train)
    rate = Rate(optimizer, config["peak"], int(config["warm"] * len(train)), steps, config["accumulate"])
    start, n = time.time(), 0
    for epoch in range(config["epochs"]):
        total = 0.0
        for x, y in train:
            loss = error(net(x), y, config["floor"])
            (loss / config["accumulate"]).backward()
            total += loss.item()
            if not math.isfinite(total):
                raise FloatingPointError(f"loss is {loss.item()} at batch {n} of epoch {epoch}")
            n += 1
            rate.step()
            if n % config["accumulate"] == 0:
                optimizer.step()
                optimizer.zero_grad()
            if n % 15 == 0:
                now = optimizer.param_groups[0]["lr"]
                print(f"batch {n:4d} loss {loss.item():.4g} rate {now:.3g} ({time.time() - start:.0f} s)", flush=True)
        with torch.no_grad():
            guess = torch.cat([net(part) for part in held[0].split(60)])
        print(f"epoch {epoch}: train {total / len(train):.4f} held {error(guess, held[1], config['floor']):.4f}", flush=True)
        torch.save(net.state_dict(), options.out)


if __name__ == "__main__":
    main()
