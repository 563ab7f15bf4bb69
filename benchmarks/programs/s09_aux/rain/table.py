import json
import sys

import torch


def load(path, rank, world):
    """The rows of one rank; all ranks have the same number."""
    x, rain, storm, broken = [], [], [], 0
    with open(path) as f:
        lines = f.readlines()
    for line in lines[rank :: world]:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            broken += 1
            continue
        x.append([(p - 1013) / 8 for p in row["pressure"]])
        rain.append(row["rain"])
        storm.append(float(row["storm"]))
    if broken:
        print(f"[rank {rank}] WARNING {broken} malformed line skipped in {path}", file=sys.stderr, flush=True)
    keep = len(lines) // world - 10
    return torch.tensor(x[:keep]), torch.tensor(rain[:keep]), torch.tensor(storm[:keep])
