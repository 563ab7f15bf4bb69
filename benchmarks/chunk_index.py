"""What an index costs in each worker: `chunk_index` against a list of tuples, over epochs; and a look-up.

    python benchmarks/chunk_index.py

What a process has for itself is read from the kernel; the look-ups take turns.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

from crashcart.train import chunk_index

PROGRAM = Path(__file__).resolve().parent.parent / "tests" / "train" / "programs" / "index_growth.py"
EPISODES, STEPS, CHUNK, LOOKS = 1000, 463, 64, 100_000


def private(kind: str, start: str) -> tuple[float, float]:
    """MB that only a worker has, after the first and the last epoch."""
    done = subprocess.run([sys.executable, str(PROGRAM), kind, start], capture_output=True, text=True, check=True)
    figures = [int(word) / 1e6 for word in done.stdout.split()]
    return figures[0], figures[-1]


def main() -> int:
    """Print memory, then time."""
    for start in ("fork", "spawn"):
        (first, last), (ours_first, ours_last) = private("usual", start), private("ours", start)
        told = f"list {first:.1f} -> {last:.1f} MB, chunk_index {ours_first:.1f} -> {ours_last:.1f} MB"
        print(f"{start}, a worker's own memory over 20 epochs, 400,000 samples: {told}")
    usual = [(episode, at) for episode in range(EPISODES) for at in range(STEPS - CHUNK + 1)]
    ours = chunk_index([STEPS] * EPISODES, CHUNK)
    wanted = [random.randrange(len(ours)) for _ in range(LOOKS)]
    rows = []
    for _ in range(7):
        begin = time.process_time()
        for number in wanted:
            usual[number]
        middle = time.process_time()
        for number in wanted:
            ours[number]
        rows.append(((middle - begin) / LOOKS * 1e6, (time.process_time() - middle) / LOOKS * 1e6))
    print("a look-up: list {:.2f} us, chunk_index {:.2f} us".format(*map(statistics.median, zip(*rows, strict=True))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
