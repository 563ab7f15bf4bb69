"""What it costs that a save lasts: `save_atomic` against torch.save, bare and with a sync to the disk, in turns.

    python benchmarks/save_atomic.py [--megabytes 400] [--times 7] [--folder PLACE]

A bare torch.save returns while most of the file is still in memory; the fair rival is the one with the sync.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

from crashcart.train import save_atomic


def main() -> int:
    """Print the medians and the ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--times", type=int, default=7)
    parser.add_argument("--folder", help="on the disk that is meant")
    options = parser.parse_args()
    state = {f"layer{number}": torch.randn(1000, 1000) for number in range(max(1, options.megabytes // 4))}
    kinds = ["bare", "synced", "ours"]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for kind in kinds:
            seconds(state, Path(folder), kind)  # the first allocates for all
        rows = [
            {kind: seconds(state, Path(folder), kind) for kind in random.sample(kinds, len(kinds))}
            for _ in range(options.times)
        ]
    bare, synced, ours = (statistics.median(row[kind] for row in rows) for kind in kinds)
    of_bare, of_synced = (statistics.median(row["ours"] / row[kind] for row in rows) for kind in kinds[:2])
    print(f"{options.megabytes} MB: torch.save {bare:.2f} s, with a sync {synced:.2f} s, save_atomic {ours:.2f} s")
    print(f"save_atomic / torch.save {of_bare:.2f}, / torch.save with a sync {of_synced:.2f}")
    return 0


def seconds(state: dict[str, torch.Tensor], folder: Path, kind: str) -> float:
    """Wall time of one save over the file of its kind."""
    path = folder / f"{kind}.pt"
    os.sync()
    begin = time.perf_counter()
    if kind == "ours":
        save_atomic(state, path)
    else:
        torch.save(state, path)
    if kind == "synced":
        with path.open("rb") as file:
            os.fsync(file.fileno())
    return time.perf_counter() - begin


if __name__ == "__main__":
    sys.exit(main())
