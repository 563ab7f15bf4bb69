import logging
import os
import sys
import time
import tomllib

import torch

from plates.job import Job


def main(path):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with open(path, "rb") as f:
        cfg = tomllib.load(f)
    logging.basicConfig(filename=f"{cfg['out']}/logs/{cfg['name']}.log", level=logging.INFO)
    future = Job(cfg).submit()
    while not future.done():
        print(".", end="", flush=True)
        time.sleep(0.2)
    print()
    weights = f"{cfg['out']}/{cfg['name']}.pt"
    if not os.path.exists(weights):
        raise FileNotFoundError(f"no weights at {weights}; is the disk mounted?")
    print("weights at", weights, os.path.getsize(weights), "bytes")


if __name__ == "__main__":
    main(sys.argv[1])
