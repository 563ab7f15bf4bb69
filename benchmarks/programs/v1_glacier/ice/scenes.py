"""Optical and radar tiles over a glacier, with the elevation change of each tile from laser altimetry."""
import argparse
import os

import numpy as np


def tile(rng, sun):
    y, x = np.mgrid[0:20, 0:20] / 20.0
    slope = rng.normal(0, 1, 2)
    rough = np.cumsum(rng.normal(0, 0.3, (20, 20)), axis=int(rng.integers(2)))
    ice = 0.5 + 0.2 * (slope[0] * x + slope[1] * y) + 0.08 * rough
    debris = rng.random() ** 2
    optical = sun * (ice - 0.5 * debris * (np.sin(7 * x + slope[0]) > 0.3)) * 255
    radar = 30 * np.abs(rng.normal(0, 1, (20, 20))) * (1 + rough.std()) + 60
    change = -1.4 * debris + 0.5 * slope[0] - 0.8 * rough.std() + rng.normal(0, 0.1)
    return np.stack([optical.clip(0, 255), radar.clip(0, 255)]).astype(np.uint8), np.float32(change)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    parser.add_argument("--tiles", type=int)
    options = parser.parse_args()
    rng = np.random.default_rng(64)
    os.makedirs(options.out, exist_ok=True)
    for year, sun in enumerate((0.8, 1.0, 1.15)):
        tiles = [tile(rng, sun) for _ in range(options.tiles // 3)]
        pixels, change = np.stack([t[0] for t in tiles]), np.array([t[1] for t in tiles])
        if year == 2:
            pixels[217, 0] = 255  # fresh snow under a high sun
        np.savez(os.path.join(options.out, f"{2019 + year}.npz"), pixels=pixels, change=change)
        print(2019 + year, pixels.shape, f"change {change.mean():.2f} +- {change.std():.2f} m")


if __name__ == "__main__":
    main()
