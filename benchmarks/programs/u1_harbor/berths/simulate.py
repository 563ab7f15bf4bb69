"""Silhouettes of ships as seen from the pier: several views of each hull."""
import argparse

import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ships", type=int)
    parser.add_argument("--out")
    options = parser.parse_args()
    g = torch.Generator().manual_seed(12)
    hulls = torch.randn(options.ships // 6, 40, generator=g).cumsum(1) / 6
    who = torch.arange(options.ships) % len(hulls)
    view = torch.randn(options.ships, 40, generator=g) * 0.35 + hulls[who] * (0.8 + 0.4 * torch.rand(options.ships, 1, generator=g))
    torch.save({"views": view, "hull": who}, options.out)
    print(f"{options.ships} views of {len(hulls)} hulls")


if __name__ == "__main__":
    main()
