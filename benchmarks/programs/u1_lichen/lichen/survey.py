"""Photographs of quadrats on walls: one folder of plates for each site, with a table of what grows there."""
import argparse
import csv
from pathlib import Path

import numpy as np

GENERA = ["xanthoria", "lecanora", "caloplaca", "physcia", "parmelia"]


def plate(rng, genus):
    y, x = np.mgrid[0:24, 0:24] / 24
    image = rng.normal(0.3, 0.12, (3, 24, 24))
    for _ in range(rng.integers(2, 6)):
        cy, cx, size = rng.random(), rng.random(), rng.uniform(0.06, 0.2)
        spot = np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / size**2)
        ring = spot if genus % 2 else np.abs(np.sin(9 * spot))
        image[genus % 3] += 0.5 * ring
        image[(genus + 1 + genus // 3) % 3] += 0.25 * spot
    return image.astype(np.float16)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path)
    parser.add_argument("--sites", type=int)
    parser.add_argument("--plates", type=int)
    options = parser.parse_args()
    rng = np.random.default_rng(1867)
    for site in range(1, options.sites + 1):
        folder = options.root / f"S{site:02d}"
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "table.csv", "w", newline="") as f:
            writer = csv.writer(f)
            for n in range(options.plates):
                genus = int(rng.choice(len(GENERA), p=[0.3, 0.25, 0.2, 0.15, 0.1]))
                np.save(folder / f"{n:03d}.npy", plate(rng, genus))
                writer.writerow([f"{n:03d}.npy", GENERA[genus]])
    print(f"{options.sites} sites with {options.plates} plates each under {options.root}")


if __name__ == "__main__":
    main()
