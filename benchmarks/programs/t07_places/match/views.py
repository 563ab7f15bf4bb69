"""Descriptors of places, seen several times from different sides."""
import argparse
import warnings

import numpy as np


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--places", type=int)
    p.add_argument("--out")
    a = p.parse_args()
    if a.places < 500:
        warnings.warn(f"{a.places} places are few, descriptors may be too easy", RuntimeWarning)
    rng = np.random.default_rng(19)
    places = rng.normal(0, 1, (a.places, 1, 96))
    sides = rng.normal(0, 1, (1, 8, 96)) * np.where(np.arange(96) % 3 == 0, 1.5, 0.3)
    views = places + sides + rng.normal(0, 0.7, (a.places, 8, 96))
    np.save(a.out, views.astype(np.float32))


if __name__ == "__main__":
    main()
