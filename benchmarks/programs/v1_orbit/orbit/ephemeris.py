"""Angles under which a telescope saw objects in low orbits: eight sightings each, the ninth has to be foretold."""
import argparse
import math

import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    parser.add_argument("--objects", type=int)
    options = parser.parse_args()
    g = torch.Generator().manual_seed(1957)
    n = options.objects
    speed = 0.25 + 0.5 * torch.rand(n, 1, generator=g)
    start = 2 * math.pi * torch.rand(n, 1, generator=g)
    tilt = torch.rand(n, 1, generator=g)
    t = torch.arange(9.0)
    angle = start + speed * t + 0.2 * tilt * torch.sin(2 * (start + speed * t))
    track = torch.stack([angle.cos(), angle.sin() * (1 - tilt / 2)], -1)
    kind = (speed[:, 0] > 0.5).long() + 2 * (tilt[:, 0] > 0.5).long()
    torch.save({"track": track + 0.01 * torch.randn(track.shape, generator=g), "kind": kind}, options.out)
    print(n, "objects")


if __name__ == "__main__":
    main()
