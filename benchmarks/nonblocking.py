"""What a log call costs the training loop: `nonblocking(wandb).log` against wandb's own, offline, a dict of 8 numbers.

    python benchmarks/nonblocking.py [--blocks 30] [--calls 200]

Blocks of calls take turns, with a pause between the calls as a step would make; the median call counts, and the slowest of a
hundred. Promised: under 20 microseconds for the caller.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

from crashcart.train import nonblocking

if TYPE_CHECKING:
    from collections.abc import Callable

PAUSE = 0.0005


def block(log: Callable[..., Any], calls: int, first: int) -> list[float]:
    """Seconds of each call."""
    took = []
    for step in range(first, first + calls):
        row = {f"metric{number}": step * 0.1 + number for number in range(8)}
        time.sleep(PAUSE)
        begin = time.perf_counter()
        log(row)
        took.append(time.perf_counter() - begin)
    return took


def told(name: str, took: list[float]) -> float:
    """Print the median and the slowest of a hundred, in microseconds."""
    middle = statistics.median(took) * 1e6
    print(f"{name}: median {middle:.1f} us, 99th of 100 {statistics.quantiles(took, n=100)[98] * 1e6:.1f} us")
    return middle


def main() -> int:
    """Measure both and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=30)
    parser.add_argument("--calls", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DIR=folder)
        import wandb

        own, ours = wandb.init(project="own"), nonblocking(wandb, folder)
        took: dict[str, list[float]] = {"wandb.log": [], "nonblocking(wandb).log": []}
        for turn in range(options.blocks):
            for name, log in (("wandb.log", own.log), ("nonblocking(wandb).log", ours.log)):
                took[name] += block(log, options.calls, turn * options.calls)
        bare, wrapped = (told(name, seconds) for name, seconds in took.items())
        ours.close(timeout=30)
        print(f"ratio {wrapped / bare:.3f}; rows {ours.counts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
