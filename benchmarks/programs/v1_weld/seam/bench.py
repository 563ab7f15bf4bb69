"""Profiles of a laser line along weld seams, and the direction in which the torch has to point at each of twelve places."""
import argparse

import numpy as np


def seam(rng):
    t = np.linspace(0, 1, 12)
    bend = rng.normal(0, 0.5, 3)
    tilt = 0.9 * np.sin(bend[0] + 2 * t * bend[1])
    turn = 0.9 * np.cos(bend[2] + 2 * t * bend[0])
    torch = np.stack([np.sin(tilt), np.sin(turn) * np.cos(tilt), np.cos(turn) * np.cos(tilt)], -1)
    across = np.linspace(-1, 1, 16)
    profile = np.abs(across[None]) * (1 + tilt[:, None]) + turn[:, None] * across[None] ** 2
    return profile + 0.002 * rng.normal(0, 1, profile.shape), torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    parser.add_argument("--count", type=int)
    options = parser.parse_args()
    rng = np.random.default_rng(1881)
    profile, torch = zip(*(seam(rng) for _ in range(options.count)))
    profile = np.stack(profile).astype(np.float32)
    profile[431, 5, 9] = 60.0  # spatter on the lens
    np.savez(options.out, profile=profile, torch=np.stack(torch).astype(np.float32))
    print(f"{options.count} seams, profile between {profile.min():.2f} and {profile.max():.2f}")


if __name__ == "__main__":
    main()
