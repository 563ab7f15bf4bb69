import os
import sys

import numpy as np

LEVELS = {"coarse": 1_500, "fine": 240_000}
SIDE = 16


def build(folder):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(0)
    for level, count in LEVELS.items():
        tiles = rng.integers(0, 150, (count, SIDE, SIDE), dtype=np.uint8)
        tiles += (np.arange(count) % 5 * 20).astype(np.uint8)[:, None, None]
        np.save(os.path.join(folder, f"{level}.npy"), tiles)
        np.save(os.path.join(folder, f"{level}_kind.npy"), np.arange(count) % 5)
        print(level, tiles.shape)


if __name__ == "__main__":
    build(sys.argv[2])
