"""Spectra of strips of sea seen from a plane, with the share of each pixel that is kelp."""
import argparse
import os

import numpy as np

BANDS = 40


def strip(rng, length=160):
    wave = np.linspace(0, 1, BANDS)
    water = 0.5 * np.exp(-3 * wave)
    kelp = 0.08 + 0.5 / (1 + np.exp(-30 * (wave - 0.7))) + 0.1 * np.exp(-(((wave - 0.3) / 0.05) ** 2))
    share = np.clip(np.convolve(rng.normal(0.2, 1.2, length), np.ones(12) / 12, "same"), 0, 1)
    glint = rng.gamma(0.5, 0.15, length)
    spectrum = share[:, None] * kelp + (1 - share[:, None]) * water + glint[:, None]
    return (spectrum * rng.uniform(0.8, 1.2) + rng.normal(0, 0.02, spectrum.shape)).astype(np.float32), share.astype(np.float32)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    parser.add_argument("--strips", type=int)
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    rng = np.random.default_rng(1835)
    for n in range(options.strips):
        spectrum, share = strip(rng)
        np.savez(os.path.join(options.out, f"strip{n:03d}.npz"), spectrum=spectrum, share=share)
    print(options.strips, "strips")


if __name__ == "__main__":
    main()
