"""Pollen traps: small images of grains, a table of labels for each season. Everything is drawn by this module."""
import argparse
import csv
import pathlib

import numpy as np

KINDS = ["birch", "hazel", "grass", "pine", "mugwort"]
SIDE = 24


def grain(rng, kind):
    y, x = np.mgrid[-1:1:SIDE * 1j, -1:1:SIDE * 1j]
    angle, r = np.arctan2(y, x), np.hypot(x, y)
    rim = 0.55 + 0.12 * rng.normal() * 0.5 + 0.1 * np.cos((kind + 1) * (angle + rng.uniform(0, 6)))
    image = np.exp(-(((r - rim) / 0.12) ** 2)) + 0.3 * (kind in (2, 3)) * (r < rim)
    return (255 * np.clip(image + 0.15 * rng.normal(size=image.shape), 0, 1)).astype(np.uint8)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="traps")
    parser.add_argument("--count", type=int, default=3000)
    o = parser.parse_args()
    rng = np.random.default_rng(33)
    for season, site, share in (("2021", "city", 1.0), ("2022", "city", 1.0), ("2023", "alps", 0.1)):
        folder = pathlib.Path(o.out) / season
        folder.mkdir(parents=True, exist_ok=True)
        count = int(o.count * share)
        kinds = rng.integers(0, len(KINDS), count)
        np.save(folder / "grains.npy", np.stack([grain(rng, k) for k in kinds]))
        with open(folder / "labels.csv", "w", newline="") as f:
            writer = csv.writer(f)
            writer.writerow(["row", "site", "kind", "sure", "focus"])
            for n, k in enumerate(kinds):
                sure = rng.beta(8, 1.5)
                if site == "alps":  # two people looked, and agreed or not
                    sure = rng.choice([0.5, 1.0], p=[0.93, 0.07])
                broken = "" if rng.random() < 0.01 else round(rng.uniform(0.2, 1), 3)
                writer.writerow([n, site, KINDS[k], round(sure, 2), broken])
        print(f"{season} {site}: {count} grains")


if __name__ == "__main__":
    main()
