"""Phantoms of tissue, a third of them with a lesion."""
import argparse

import numpy as np


def blurred(noise, times=6):
    for _ in range(times):
        for axis in (0, 1):
            noise = (np.roll(noise, 1, axis) + 2 * noise + np.roll(noise, -1, axis)) / 4
    return noise

def main():
    p = argparse.ArgumentParser()
    p.add_argument("--n", type=int)
    p.add_argument("--out")
    a = p.parse_args()
    rng = np.random.default_rng(20)
    y, x = np.mgrid[:24, :24]
    label = rng.random(a.n) < 0.33
    images = np.empty((a.n, 24, 24), np.float32)
    for n in range(a.n):
        image = blurred(rng.normal(0, 1, (24, 24))) * 3
        if label[n]:
            cy, cx = rng.uniform(5, 19, 2)
            image += rng.uniform(0.8, 2.5) * np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / 7)
        images[n] = image
    with np.errstate(all="warn"):
        reach = np.log((images.max((1, 2)) - 0.9) / np.abs(images.min((1, 2))))
    print(f"{label.sum()} of {a.n} with a lesion, contrast {np.nanmean(reach):.2f}")
    np.savez(a.out, images=images, label=label)


if __name__ == "__main__":
    main()
