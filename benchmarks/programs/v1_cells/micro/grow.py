"""Microscope pictures of wells with stained cells, and where the cells are."""
import argparse
import os

import numpy as np


def well(rng, crowded):
    count = int(rng.integers(6, 16)) if crowded else int(rng.integers(1, 7))
    image = rng.normal(0.1, 0.04, (48, 48))
    y, x = np.mgrid[0:48, 0:48]
    centres = rng.uniform(3, 45, (count, 2))
    for cy, cx in centres:
        image += 0.8 * np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / (2 * rng.uniform(1.2, 2.4) ** 2))
    return image.astype(np.float32), centres.astype(np.float32)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    parser.add_argument("--count", type=int)
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    rng = np.random.default_rng(1665)
    for n in range(options.count):
        image, centres = well(rng, n % 3 == 0)
        if n % 19 == 7:  # controls without cells
            image, centres = rng.normal(0.1, 0.04, (48, 48)).astype(np.float32), np.zeros((0, 2), np.float32)
        np.savez(os.path.join(options.out, f"{n:04d}.npz"), image=image, centres=centres)
    print(options.count, "wells")


if __name__ == "__main__":
    main()
