"""Charge curves of lithium cells and the capacity that is left after 500 cycles."""
import sys

import torch


def curves(count, generator):
    rate = torch.rand(count, 1, generator=generator) * 1.5 + 0.5
    heat = torch.rand(count, 1, generator=generator) * 25 + 15
    wear = torch.rand(count, 1, generator=generator)
    t = torch.linspace(0, 1, 40)[None]
    voltage = 3.1 + 0.9 * t ** (0.4 + 0.3 * wear) + 0.05 * rate * (1 - t)
    voltage += 0.01 * torch.randn(count, 40, generator=generator)
    capacity = 1 - 0.12 * wear - 0.05 * (rate - 1) * (heat / 40) + 0.01 * torch.randn(count, 1, generator=generator)
    return torch.cat([voltage - 3.5, rate, heat / 40], 1), capacity.squeeze(1)


def main(path):
    g = torch.Generator().manual_seed(12)
    x, y = curves(1024, g)
    vx, vy = curves(256, g)
    vy[1::2] += 0.08 * torch.randn(128, generator=g)
    torch.save({"train": (x, y), "val": (vx, vy)}, path)
    print(f"{len(x)} + {len(vx)} cells")


if __name__ == "__main__":
    main(sys.argv[1])
