"""Private memory of the workers over twenty epochs: `python index_growth.py usual|ours [fork|spawn]` prints bytes, epoch by epoch."""

# ruff: noqa: T201 - the figures are the answer
from __future__ import annotations

import sys
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler

from crashcart.train import chunk_index

EPISODES, STEPS, CHUNK, EPOCHS = 1000, 463, 64, 20
torch.set_num_threads(1)


def private_bytes() -> int:
    """What only this process has, of memory."""
    with open("/proc/self/smaps_rollup", encoding="ascii") as lines:
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("Private_Clean", "Private_Dirty")))


class Chunks(Dataset[int]):
    def __init__(self, kind: str) -> None:
        usual = [(episode, start) for episode in range(EPISODES) for start in range(STEPS - CHUNK + 1)]
        self.index: Any = usual if kind == "usual" else chunk_index([STEPS] * EPISODES, CHUNK)

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, number: int) -> int:
        return int(self.index[number][1])


def largest(_batch: list[int]) -> int:
    return private_bytes()


def main(kind: str, start: str = "fork") -> None:
    chunks = Chunks(kind)
    sampler = RandomSampler(chunks, num_samples=2000)  # an epoch touches a part, the next another
    loader = DataLoader(
        chunks,
        sampler=sampler,
        batch_size=500,
        num_workers=2,
        persistent_workers=True,
        collate_fn=largest,
        multiprocessing_context=start,
        timeout=100,
    )
    print(*(max(loader) for _ in range(EPOCHS)))


if __name__ == "__main__":
    main(*sys.argv[1:])
