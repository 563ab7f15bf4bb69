import os
import sys

import numpy as np


def scene(rng):
    yy, xx = np.mgrid[0:20, 0:20] / 20
    a, b, c = rng.uniform(-1, 1, 3)
    depth = 2 + a * xx + b * yy + c * np.sin(6 * xx * yy)
    shade = 1 / depth + rng.normal(0, 0.02, depth.shape)
    return {"shade": shade.astype("f4"), "depth": depth.astype("f4"), "hidden": rng.random(depth.shape) < 0.04}


if __name__ == "__main__":
    folder, count = sys.argv[1], int(sys.argv[2])
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(2)
    for i in range(count):
        np.savez(f"{folder}/scene_{i:03d}.npz", **scene(rng))
