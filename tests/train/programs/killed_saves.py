"""Kill -9 while saving, again and again: `python killed_saves.py FOLDER usual|ours TIMES` prints how often no whole file was left."""

# ruff: noqa: T201 - the count is the answer
from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from crashcart import checkpoints
from crashcart.train import save_atomic

torch.set_num_threads(1)


def save_for_ever(path: Path, kind: str) -> None:
    state = {"model": {f"layer{number}": torch.ones(500, 500) for number in range(8)}, "step": 0}
    while True:
        state["step"] += 1  # type: ignore[operator]
        if kind == "ours":
            save_atomic(state, path)
        else:
            torch.save(state, path)


def main(folder: str, kind: str, times: str) -> None:
    path = Path(folder) / "last.pt"
    torch.save({"step": 0}, path)
    draw = random.Random(3)
    lost = 0
    for _ in range(int(times)):
        child = os.fork()
        if child == 0:
            save_for_ever(path, kind)
        time.sleep(0.05 + draw.random() * 0.15)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        whole = checkpoints.inspect(path).verdict == "whole"
        if whole:
            torch.load(path, weights_only=True)
        lost += not whole
    left = len(os.listdir(folder))
    print(lost, left)


if __name__ == "__main__":
    main(*sys.argv[1:])
