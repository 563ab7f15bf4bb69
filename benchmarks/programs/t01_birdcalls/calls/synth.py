"""Chirps of six species as spectrogram patches."""
import argparse
import os

import numpy as np

SPECIES = ["wren", "robin", "siskin", "dunnock", "linnet", "twite"]


def patch(rng, kind):
    t = np.arange(32)
    centre = 6 + 3 * kind + rng.normal(0, 0.6) + (1 + kind % 3) * np.sin(t / (2.0 + kind))
    image = np.exp(-0.5 * (np.arange(28)[:, None] - centre[None]) ** 2)
    return (image + rng.gamma(0.6, 0.25, image.shape)).astype(np.float32)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--dir")
    p.add_argument("--count", type=int)
    a = p.parse_args()
    rng = np.random.default_rng(23)
    os.makedirs(a.dir, exist_ok=True)
    kinds = rng.integers(0, len(SPECIES), a.count)
    images = np.stack([patch(rng, k) for k in kinds])
    cut = int(a.count * 0.8)
    np.savez(os.path.join(a.dir, "train.npz"), x=images[:cut], y=kinds[:cut])
    np.savez(os.path.join(a.dir, "val.npz"), x=images[cut:], y=kinds[cut:])
    print(f"{a.count} clips of {len(SPECIES)} species in {a.dir}")


if __name__ == "__main__":
    main()
