"""What it costs to judge a large checkpoint: its structure alone, and with all checksums against reading its bytes once.

    python benchmarks/checkpoints.py [--gigabytes 2]

The file is in the page cache in all three, and each is done in turns; the fastest of some rounds counts.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from crashcart import checkpoints

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 5
PIECE_BYTES = 1 << 20


def main() -> int:
    """Make a checkpoint, judge it, print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=2.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "step_1000.pt"
        tensor = torch.randn(1 << 22)
        count = round(options.gigabytes * 1e9 / tensor.nbytes)
        torch.save({"model": {f"layer{number}": tensor + number for number in range(count)}, "step": 1000}, path)
        jobs: dict[str, Callable[[], object]] = {
            "reading its bytes once": lambda: read(path),
            "all checksums": lambda: checkpoints.inspect(path, budget_bytes=1 << 62),
            "structure and a sample of the values": lambda: checkpoints.inspect(path, deep=False),
        }
        fastest = dict.fromkeys(jobs, float("inf"))
        for _ in range(ROUNDS):
            for name, job in jobs.items():
                begin = time.perf_counter()
                job()
                fastest[name] = min(fastest[name], time.perf_counter() - begin)
        base = fastest["reading its bytes once"]
        for name, seconds in fastest.items():
            print(f"{name}: {1000 * seconds:.0f} ms = {seconds / base:.2f} times reading {path.stat().st_size / 1e9:.1f} GB")
    return 0


def read(path: Path) -> None:
    """All bytes, piece by piece, as a resume has to."""
    piece = bytearray(PIECE_BYTES)
    with path.open("rb", buffering=0) as file:
        while file.readinto(piece):
            pass


if __name__ == "__main__":
    sys.exit(main())
