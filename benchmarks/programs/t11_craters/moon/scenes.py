"""Grey scenes with craters, and the map of their centres."""
import argparse

import h5py
import numpy as np


def scene(rng, size=40):
    y, x = np.mgrid[:size, :size]
    image = rng.normal(0.5, 0.05, (size, size))
    heat = np.zeros((size // 4, size // 4), np.float32)
    for _ in range(rng.integers(1, 5)):
        cy, cx, r = *rng.integers(5, size - 5, 2), rng.uniform(3, 5)
        ring = np.exp(-((np.hypot(y - cy, x - cx) - r) ** 2) / 1.5)
        image += 0.3 * ring * np.sign(x - cx)
        heat[cy // 4, cx // 4] = 1
    return image.astype(np.float32), heat


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out")
    p.add_argument("--train", type=int)
    p.add_argument("--val", type=int)
    a = p.parse_args()
    rng = np.random.default_rng(41)
    with h5py.File(a.out, "w") as f:
        for part, count in (("train", a.train), ("val", a.val)):
            images, heat = zip(*(scene(rng) for _ in range(count)))
            f.create_dataset(f"{part}/image", data=np.stack(images), compression="gzip")
            f.create_dataset(f"{part}/heat", data=np.stack(heat))


if __name__ == "__main__":
    main()
