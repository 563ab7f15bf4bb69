"""Assemblies of a small reactor core: 17 x 17 maps of burn-up, enrichment and rod position, and the power that follows."""
import torch
from torch.nn.functional import avg_pool2d

LOST = -999.0


def cores(count, seed, side=17, lost=0.01):
    g = torch.Generator().manual_seed(seed)
    burn = torch.rand(count, 1, side, side, generator=g)
    rich = 0.5 + 0.5 * torch.rand(count, 1, side, side, generator=g)
    rods = (torch.rand(count, 1, side, side, generator=g) > 0.85).float()
    source = rich * (1 - 0.6 * burn) * (1 - 0.9 * rods)
    flux = source
    for _ in range(6):
        flux = 0.6 * avg_pool2d(flux, 3, 1, 1) * (0.7 + 0.6 * source) + 0.4 * source
    power = flux / flux.mean((1, 2, 3), keepdim=True)
    power = power + 0.01 * torch.randn(power.shape, generator=g)
    power[torch.rand(power.shape, generator=g) < lost] = LOST  # detectors that failed
    return torch.cat([burn, rich, rods], 1), power
