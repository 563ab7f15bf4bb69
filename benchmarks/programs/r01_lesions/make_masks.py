import argparse
import pathlib

import numpy as np


def blob(rng, size, classes):
    yy, xx = np.mgrid[:size, :size]
    mask = np.zeros((size, size), dtype=np.uint8)
    for k in range(1, classes):
        cy, cx = rng.uniform(10, size - 10, 2)
        r = rng.uniform(4, 14)
        mask[(yy - cy) ** 2 + (xx - cx) ** 2 < r * r] = k
    return mask


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--out", type=pathlib.Path)
    p.add_argument("--patients", type=int)
    a = p.parse_args()
    a.out.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    for i in range(a.patients):
        masks = np.stack([blob(rng, 96, 6) for _ in range(8)])
        scans = masks[:, None] * 0.3 + rng.normal(0, 0.25, (8, 1, 96, 96))
        np.savez(a.out / f"patient_{i:03d}.npz", scan=scans.astype(np.float32), mask=masks)
    print(f"{a.patients} patients in {a.out}")
