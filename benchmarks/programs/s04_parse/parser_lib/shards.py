import json
import sys

import torch


def read(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def share(rows, rank, world):
    """The rows of one rank, filled up from its beginning so that all are equally long."""
    mine = rows[rank::world]
    longest = -(-len(rows) // world)
    if len(mine) < longest:
        print(f"WARNING rank {rank} has {longest - len(mine)} sentences fewer than the others, repeats some", file=sys.stderr)
        mine = mine + mine[: longest - len(mine)]
    return mine


def padded(rows):
    width = max(len(r["words"]) for r in rows)
    words = torch.zeros(len(rows), width, dtype=torch.long)
    tags = torch.full((len(rows), width), -100)
    for i, r in enumerate(rows):
        words[i, : len(r["words"])] = torch.tensor(r["words"])
        tags[i, : len(r["tags"])] = torch.tensor(r["tags"])
    return words, tags
